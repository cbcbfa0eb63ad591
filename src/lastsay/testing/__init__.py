"""Shipped test parts: scripted backend, scripted model server, strategies, conformance checks."""

from lastsay.testing._backends import BackendCheckError, check_backend
from lastsay.testing._claude import CLAUDE_OFFLINE_MODEL, claude_offline_environment, claude_offline_options

__all__ = (
    "CLAUDE_OFFLINE_MODEL",
    "BackendCheckError",
    "check_backend",
    "claude_offline_environment",
    "claude_offline_options",
)
