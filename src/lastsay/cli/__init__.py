"""The command line. Heavy imports live inside the commands."""

from lastsay.cli._main import main

__all__ = ("main",)
