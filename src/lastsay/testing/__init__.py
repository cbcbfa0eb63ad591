"""Shipped test parts: scripted backend, scripted model server, strategies, conformance checks."""

from lastsay.testing._claude import CLAUDE_OFFLINE_MODEL, claude_offline_environment, claude_offline_options

__all__ = ("CLAUDE_OFFLINE_MODEL", "claude_offline_environment", "claude_offline_options")
