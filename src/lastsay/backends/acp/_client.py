"""The client's side of a connection: our requests, and answers to the agent's."""

import asyncio
import inspect
import json
from typing import Any, Final

import msgspec

from lastsay.backends._process import ChildProcess
from lastsay.backends.acp._normaliser import Normaliser
from lastsay.backends.acp._permission import Permission, PermissionRequest, chosen_by, outcome, request_of
from lastsay.events import Event, Fault, Notice

__all__ = ("Client",)

_METHOD_NOT_FOUND: Final = -32601
_CANCELLED: Final = -32800


class Client:
    """Writes frames to an agent, and answers what it asks. It never waits: the child process holds what is not read.

    Args:
        child: the agent.
        normaliser: is told what is sent, and holds what the agent asks.
        permission: the policy for permission requests.
    """

    def __init__(self, child: ChildProcess, normaliser: Normaliser, permission: Permission) -> None:
        self._child = child
        self._normaliser = normaliser
        self._permission: Permission = permission
        self._requests = 0
        self._asking: dict[str, Any] = {}
        self._deciding: dict[str, asyncio.Task[None]] = {}
        self._decided: list[Event] = []
        self.cancelled = False

    def request(self, method: str, params: dict[str, Any]) -> None:
        """Send a request; the normaliser takes the answer."""
        self._requests += 1
        self._send({"jsonrpc": "2.0", "id": self._requests, "method": method, "params": params})

    def cancel(self) -> None:
        """Ask the agent to end the turn, and let go of what it asks. A second call does nothing."""
        if self.cancelled or self._normaliser.session is None:
            return
        self.cancelled = True
        self._send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._normaliser.session}})
        for key in list(self._asking):
            self._settle(key, None)

    def serve(self) -> list[Event]:
        """Answer what the agent asked since the last call; the events tell how."""
        asked, self._normaliser.inbox = self._normaliser.inbox, []
        for frame in asked:
            method, identity = frame["method"], frame.get("id")
            params = frame.get("params")
            if method == "$/cancel_request":
                self._withdraw(params)
            elif method == "session/request_permission":
                self._ask(identity, params)
            else:
                self._refuse(identity, _METHOD_NOT_FOUND, f"this client has no {method}")
        decided, self._decided = self._decided, []
        return decided

    def close(self) -> None:
        """Stop deciding."""
        for task in self._deciding.values():
            task.cancel()

    def _send(self, frame: dict[str, Any]) -> None:
        self._normaliser.sent(frame)
        try:
            line = msgspec.json.encode(frame)
        except UnicodeEncodeError:  # a lone surrogate in the prompt
            line = json.dumps(frame).encode()
        self._child.send(line + b"\n")

    def _refuse(self, identity: Any, code: int, message: str) -> None:
        self._send({"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}})

    def _withdraw(self, params: Any) -> None:
        """The agent takes a request back (``$/cancel_request``)."""
        key = str(params.get("requestId")) if isinstance(params, dict) else ""
        if key in self._asking:
            identity = self._asking.pop(key)
            task = self._deciding.pop(key, None)
            if task is not None:
                task.cancel()
            self._refuse(identity, _CANCELLED, "cancelled")

    def _ask(self, identity: Any, params: Any) -> None:
        key = str(identity)
        session = params.get("sessionId") if isinstance(params, dict) else None
        request = request_of(params, self._normaliser.run_of(session))
        self._asking[key] = identity
        if self.cancelled:
            self._settle(key, None)
        elif not callable(self._permission):
            self._settle(key, chosen_by(self._permission, request))
        else:
            task = asyncio.get_running_loop().create_task(self._decide(key, request))
            self._deciding[key] = task
            task.add_done_callback(lambda _: self._deciding.pop(key, None))

    async def _decide(self, key: str, request: PermissionRequest) -> None:
        decide = self._permission
        assert callable(decide)
        try:
            found = decide(request)
            option = await found if inspect.isawaitable(found) else found
        except Exception as error:  # noqa: BLE001  # the caller's function: its failure is a rejection, and is told
            self._decided.append(Fault("permission", f"the permission function failed: {error!r}", run=request.run))
            option = chosen_by("reject", request)
        if option is not None and option not in [offered.id for offered in request.options]:
            detail = f"the permission function gave {option!r}, which is no option's id"
            self._decided.append(Fault("permission", detail, run=request.run))
            option = chosen_by("reject", request)
        if key in self._asking:
            self._settle(key, option)

    def _settle(self, key: str, option: str | None) -> None:
        identity = self._asking.pop(key)
        task = self._deciding.pop(key, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        self._send({"jsonrpc": "2.0", "id": identity, "result": outcome(option)})
        self._decided.append(Notice("permission_answered", {"id": identity, "option": option}))
