"""A scripted model server on loopback, for driving real harnesses without a model, a key or a network.

It speaks Anthropic Messages and OpenAI chat completions. What the model does is a scenario, written as data and named
by a marker in the prompt::

    async with model_server() as server:
        environment = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none"}
        prompt = f"Go on. {marker('tool-then-empty')}"
        ...
        assert server.played("tool-then-empty")

``python -m lastsay.testing.model_server`` runs it by hand and lists its scenarios.
"""

from lastsay.testing.model_server._library import BUILT_IN, delegating
from lastsay.testing.model_server._marker import marker
from lastsay.testing.model_server._server import ModelServer, Request, model_server
from lastsay.testing.model_server._steps import (
    Attempts,
    CallTool,
    Cut,
    EndBlock,
    Hang,
    HttpError,
    Say,
    Scenario,
    Sleep,
    SseError,
    Step,
    Stop,
    Think,
    Tokens,
    Turn,
)

__all__ = (
    "BUILT_IN",
    "Attempts",
    "CallTool",
    "Cut",
    "EndBlock",
    "Hang",
    "HttpError",
    "ModelServer",
    "Request",
    "Say",
    "Scenario",
    "Sleep",
    "SseError",
    "Step",
    "Stop",
    "Think",
    "Tokens",
    "Turn",
    "delegating",
    "marker",
    "model_server",
)
