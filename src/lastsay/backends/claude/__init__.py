"""Claude: the Claude Agent SDK and its native CLI, live and from session files."""

from lastsay.backends.claude._live import events, stream
from lastsay.backends.claude._normaliser import Normaliser
from lastsay.backends.claude._stop import STOP_TABLE

__all__ = ("STOP_TABLE", "Normaliser", "events", "stream")
