"""The demo: real native runs against a scripted model, the harness's own result beside the agreed one."""

from lastsay.cli.demo._cases import CASES, Case
from lastsay.cli.demo._play import Shown, play

__all__ = ("CASES", "Case", "Shown", "play")
