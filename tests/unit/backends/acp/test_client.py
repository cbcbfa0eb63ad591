"""The client's side of a connection, without an agent."""

import json
from typing import Any

import pytest

from lastsay.backends.acp._client import Client
from lastsay.backends.acp._normaliser import Normaliser
from lastsay.backends.acp._permission import chosen_by, request_of


class Pipe:
    """Keeps what is sent to the agent."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []

    def send(self, data: bytes) -> bool:
        """Keep one frame."""
        self.frames.append(json.loads(data))
        return True


def client(session: str | None = "s") -> tuple[Client, Pipe]:
    """A client that rejects."""
    pipe = Pipe()
    return Client(pipe, Normaliser(session=session), "reject"), pipe  # type: ignore[arg-type]  # a pipe will do


def test_cancelling_twice_is_once() -> None:
    """The agent is asked once, and not before there is a session."""
    asking, pipe = client()
    asking.cancel()
    asking.cancel()
    assert [{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}] == pipe.frames
    early, nothing = client(None)
    early.cancel()
    assert [] == nothing.frames


OPTIONS = [
    {"optionId": "always", "kind": "allow_always"},
    {"optionId": "first", "kind": "allow_once"},
    {"optionId": "second", "kind": "allow_once"},
    {"optionId": "never", "kind": "reject_always"},
    "rubbish",
    {"kind": "allow_once"},
]


@pytest.mark.parametrize(
    ("policy", "kept", "option"),
    [
        ("allow", OPTIONS, "first"),
        ("allow", OPTIONS[:1], "always"),
        ("reject", OPTIONS, "never"),
        ("reject", OPTIONS[:3], None),
        ("allow", None, None),
    ],
)
def test_fixed_policies(policy: Any, kept: Any, option: str | None) -> None:
    """The narrowest option of the kind, the first of several, and none where none is offered."""
    assert option == chosen_by(policy, request_of({"options": kept}, "main"))
