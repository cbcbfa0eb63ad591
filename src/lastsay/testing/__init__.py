"""Shipped test parts: scripted backend, scripted model server, strategies, conformance checks."""

from lastsay.testing._backends import BackendCheckError, check_backend
from lastsay.testing._claude import CLAUDE_OFFLINE_MODEL, claude_offline_environment, claude_offline_options
from lastsay.testing._operators import check_operator, joined, said, sample_events
from lastsay.testing._strategies import run_events

__all__ = (
    "CLAUDE_OFFLINE_MODEL",
    "BackendCheckError",
    "check_backend",
    "check_operator",
    "claude_offline_environment",
    "claude_offline_options",
    "joined",
    "run_events",
    "said",
    "sample_events",
)
