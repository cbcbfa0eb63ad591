"""Claude: the Claude Agent SDK and its native CLI, live and from session files."""

from lastsay.backends.claude._functions import Function, FunctionServer
from lastsay.backends.claude._live import events, stream
from lastsay.backends.claude._normaliser import Normaliser
from lastsay.backends.claude._stop import STOP_TABLE
from lastsay.backends.claude._transcript import events_of, looks_like, read, session_of

__all__ = (
    "STOP_TABLE",
    "Function",
    "FunctionServer",
    "Normaliser",
    "events",
    "events_of",
    "looks_like",
    "read",
    "session_of",
    "stream",
)
