"""The scripted model server: a thread with an event loop of its own, on loopback.

It lives in its own thread so that it answers whatever the caller's event loop does: a test may block, cancel, or run
under trio. The same object is an async and a plain context manager.
"""

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import anyio
import anyio.to_thread

from lastsay.errors import UsageError
from lastsay.testing.model_server import _anthropic, _http, _openai
from lastsay.testing.model_server._library import BUILT_IN
from lastsay.testing.model_server._marker import Cue, find_cue
from lastsay.testing.model_server._render import CHARACTERS_PER_TOKEN, Chunk, Names, error_status
from lastsay.testing.model_server._steps import Cut, Hang, HttpError, Scenario, Sleep, SseError, Turn

__all__ = ("ModelServer", "Request", "model_server")

_POLL: Final = 0.02
"""Seconds between two looks whether a client that is kept waiting is still there."""

_STOP_WITHIN: Final = 5.0
"""Seconds that the thread may take to end."""

_CONVERSATION_HEADERS: Final = ("x-claude-code-session-id", "session-id", "x-session-id")


@dataclass(slots=True)
class Request:
    """One request as it came, and what was played to it.

    `ended` is None while the answer is being sent, then ``complete``, ``cut`` (by the script) or ``gone`` (the client
    went away first).
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    protocol: str
    """``anthropic``, ``openai``, ``count_tokens`` or ``other``."""
    scenario: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    turn: int = 0
    attempt: int = 0
    ended: str | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation that the request carries; empty where it carries none."""
        listed = self.body.get("messages")
        return [m for m in listed if isinstance(m, dict)] if isinstance(listed, list) else []


def model_server(*, port: int = 0, scenarios: Iterable[Scenario] = (), default: str = "text") -> "ModelServer":
    """A scripted model server, to be entered with ``async with`` or ``with``.

    It speaks Anthropic Messages (any path that ends in ``/messages``) and OpenAI chat completions (any path that ends
    in ``/chat/completions``), streamed or not, on 127.0.0.1 only. Which scenario it plays stands in the prompt, as
    ``[[scenario:NAME]]``; a request without a marker gets `default`.

    Args:
        port: TCP port; 0 takes a free one.
        scenarios: your own ones, beside or in place of the built-in ones of equal name.
        default: name of the scenario for requests without a marker.
    """
    return ModelServer(port=port, scenarios=scenarios, default=default)


class ModelServer:
    """A running scripted model server; made by `model_server`.

    Attributes:
        requests: every request so far, in order of arrival.
        scenarios: the scenarios by name.
    """

    def __init__(self, *, port: int, scenarios: Iterable[Scenario], default: str) -> None:
        self.requests: list[Request] = []
        self.scenarios: dict[str, Scenario] = {}
        for scenario in (*BUILT_IN, *scenarios):
            self.register(scenario)
        if default not in self.scenarios:
            raise UsageError(f"no scenario named {default!r}: known are {', '.join(sorted(self.scenarios))}")
        self._default = default
        self._wanted_port = port
        self._attempts: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: OSError | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        return self._port

    @property
    def url(self) -> str:
        """The base address, without a slash at the end: what goes into ``ANTHROPIC_BASE_URL``."""
        return f"http://127.0.0.1:{self._port}"

    def register(self, scenario: Scenario) -> None:
        """Add a scenario, or replace the one of the same name. May be called while the server runs."""
        self.scenarios[scenario.name] = scenario

    def played(self, scenario: str) -> list[Request]:
        """The requests to which this scenario was played, in order of arrival."""
        return [request for request in self.requests if request.scenario == scenario]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._main, name="lastsay-model-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join(_STOP_WITHIN)
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None and self._stop is not None and self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOP_WITHIN)

    async def __aenter__(self) -> Self:
        return await anyio.to_thread.run_sync(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.__exit__, None, None, None)

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        open_connections: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            open_connections.add(task)
            try:
                await _Connection(self, reader, writer).serve()
            except asyncio.CancelledError:
                pass  # only the end of the server cancels a connection; asyncio would print it on standard error
            finally:
                open_connections.discard(task)

        try:
            server = await asyncio.start_server(accept, "127.0.0.1", self._wanted_port, limit=1024 * 1024)
        except OSError as error:
            self._failure = error
            self._ready.set()
            return
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in open_connections:
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)
        await server.wait_closed()

    def _record(self, head: _http.Head, body: Mapping[str, Any]) -> Request:
        protocol = _protocol(head)
        number = len(self.requests) + 1
        request = Request(number, head.method, head.path, head.headers, body, protocol)
        if protocol in ("anthropic", "openai"):
            cue = find_cue(body)
            request.scenario, request.arguments = cue.scenario or self._default, cue.arguments
            request.turn, request.attempt = cue.turn, self._attempt(head, body, cue)
        self.requests.append(request)
        return request

    def _attempt(self, head: _http.Head, body: Mapping[str, Any], cue: Cue) -> int:
        who = [head.headers.get(name) for name in _CONVERSATION_HEADERS]
        key = json.dumps([who, body.get("metadata"), cue.scenario, cue.turn, _plain(body.get("messages"))], default=str)
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        earlier = self._attempts[digest]
        self._attempts[digest] += 1
        return earlier

    def _turn(self, request: Request) -> Turn:
        scenario = self.scenarios.get(request.scenario or "")
        if scenario is None:
            known = ", ".join(sorted(self.scenarios))
            return (HttpError(400, f"no scenario named {request.scenario!r}; known are: {known}"),)
        try:
            return scenario.play(request.arguments, request.turn, request.attempt)
        except (ValueError, KeyError) as error:
            return (HttpError(400, f"scenario {scenario.name!r}: {error}"),)


def _protocol(head: _http.Head) -> str:
    if head.method != "POST":
        return "other"
    if head.path.endswith("/messages/count_tokens"):
        return "count_tokens"
    if head.path.endswith("/chat/completions"):
        return "openai"
    return "anthropic" if head.path.endswith("/messages") else "other"


def _plain(value: Any) -> Any:
    """The value without cache marks, which clients move between the tries of one request."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key != "cache_control"}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class _Connection:
    """One client connection: requests one after the other, until it ends or the script cuts it."""

    __slots__ = ("_reader", "_server", "_writer")

    def __init__(self, server: ModelServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server, self._reader, self._writer = server, reader, writer

    async def serve(self) -> None:
        try:
            while await self._one_request():
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away: its business, and recorded with the request
        finally:
            self._writer.close()

    async def _one_request(self) -> bool:
        try:
            head = await _http.read_head(self._reader)
            if head is None:
                return False
            if head.headers.get("expect", "").lower() == "100-continue":
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            raw = await _http.read_body(self._reader, head)
        except ValueError as error:
            self._writer.write(_http.answer(400, _json(_anthropic.error_body(400, str(error)))))
            return False
        request = self._server._record(head, _body(raw))  # noqa: SLF001 - the two classes are one unit
        try:
            alive = await self._reply(request)
        finally:
            request.ended = request.ended or "gone"
        return alive and head.keep_alive

    async def _reply(self, request: Request) -> bool:
        if request.protocol == "other":
            return await self._reply_other(request)
        if request.protocol == "count_tokens":
            return await self._send(request, 200, {"input_tokens": _estimate(request.body)})
        turn = self._server._turn(request)  # noqa: SLF001 - the two classes are one unit
        for step in turn:
            if isinstance(step, HttpError):
                return await self._send(request, step.status, _error(request, step.status, step.message), step.headers)
            if not isinstance(step, Sleep):
                break
            await asyncio.sleep(step.seconds)
        names = Names(request.number, str(request.body.get("model") or "scripted"), _estimate(request.body))
        if request.body.get("stream") is True:
            return await self._play(request, _rendered(request, turn, names))
        return await self._reply_whole(request, turn, names)

    async def _reply_other(self, request: Request) -> bool:
        if request.method in ("HEAD", "OPTIONS"):
            request.ended = "complete"
            self._writer.write(_http.answer(200, b""))
            return True
        return await self._send(request, 404, _error(request, 404, f"nothing here: {request.method} {request.path}"))

    async def _reply_whole(self, request: Request, turn: Turn, names: Names) -> bool:
        for step in turn:
            if isinstance(step, SseError):
                status = error_status(step.type)
                return await self._send(request, status, _error(request, status, step.message))
            if isinstance(step, Cut | Hang | Sleep) and not await self._carry_out(request, step):
                return False
        whole = _openai.whole if request.protocol == "openai" else _anthropic.whole
        return await self._send(request, 200, whole(turn, names))

    async def _send(self, request: Request, status: int, value: Any, headers: Mapping[str, str] | None = None) -> bool:
        named = {"request-id": f"req_{request.number:06d}", **(headers or {})}
        request.ended = "complete"  # before the last byte: a client that has read it may look at once
        self._writer.write(_http.answer(status, _json(value), named))
        await self._writer.drain()
        return True

    async def _play(self, request: Request, chunks: Iterator[Chunk]) -> bool:
        self._writer.write(_http.stream_head({"request-id": f"req_{request.number:06d}"}))
        for item in chunks:
            if isinstance(item, bytes):
                self._writer.write(_http.chunk(item))
                await self._writer.drain()
            elif not await self._carry_out(request, item):
                return False
        request.ended = "complete"
        self._writer.write(_http.last_chunk())
        await self._writer.drain()
        return True

    async def _carry_out(self, request: Request, step: Sleep | Hang | Cut) -> bool:
        """Whether the answer goes on after the step."""
        if isinstance(step, Cut):
            await asyncio.sleep(0)
            request.ended = "cut"
            self._writer.transport.abort()
            return False
        return await self._wait(step.seconds)

    async def _wait(self, seconds: float | None) -> bool:
        """Whether the client is still there after so many seconds (None: without limit)."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while not (self._reader.at_eof() or self._writer.is_closing()):
            left = _POLL if end is None else end - loop.time()
            if left <= 0:
                return True
            await asyncio.sleep(min(_POLL, left))
        return False


def _rendered(request: Request, turn: Turn, names: Names) -> Iterator[Chunk]:
    if request.protocol == "anthropic":
        return _anthropic.render(turn, names)
    options = request.body.get("stream_options")
    return _openai.render(turn, names, usage_chunk=isinstance(options, dict) and options.get("include_usage") is True)


def _error(request: Request, status: int, message: str) -> Any:
    make = _openai.error_body if request.protocol == "openai" else _anthropic.error_body
    return make(status, message)


def _estimate(body: Mapping[str, Any]) -> int:
    return max(1, len(_json([body.get("system"), body.get("messages")])) // CHARACTERS_PER_TOKEN)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


def _body(raw: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
