"""Agents that speak the Agent Client Protocol over standard input and output."""

from lastsay.backends.acp._live import Prompt, stream
from lastsay.backends.acp._normaliser import Normaliser
from lastsay.backends.acp._permission import Permission, PermissionOption, PermissionRequest
from lastsay.backends.acp._sdk import Tap, events

__all__ = ("Normaliser", "Permission", "PermissionOption", "PermissionRequest", "Prompt", "Tap", "events", "stream")
