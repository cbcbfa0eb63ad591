"""As much HTTP/1.1 as the model server needs: requests with a body, answers in one piece or in chunks."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

__all__ = ("Head", "answer", "chunk", "last_chunk", "read_body", "read_head", "stream_head")

MAX_BODY: Final = 512 * 1024 * 1024
"""Bytes of a request body that are accepted."""


@dataclass(frozen=True, slots=True)
class Head:
    """Request line and headers; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def keep_alive(self) -> bool:
        """Whether the client may send another request on this connection."""
        return self.headers.get("connection", "").lower() != "close"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The head of the next request; None at the end of the connection.

    Raises:
        ValueError: what came is not HTTP.
    """
    try:
        block = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise ValueError("the head of the request is too long") from error
    first, *lines = block[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise ValueError(f"not a request line: {first[:100]!r}")
    pairs = (line.partition(":") for line in lines)
    return Head(words[0], words[1].partition("?")[0], {name.strip().lower(): value.strip() for name, _, value in pairs})


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """The body that belongs to the head, of known length or in chunks.

    Raises:
        ValueError: its length is missing or too large.
        asyncio.IncompleteReadError: the connection ended inside.
    """
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        pieces = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            pieces.append(await reader.readexactly(_checked(size)))
            await reader.readuntil(b"\r\n")
        await reader.readuntil(b"\r\n")
        return b"".join(pieces)
    return await reader.readexactly(_checked(int(head.headers.get("content-length", "0"))))


def _checked(size: int) -> int:
    if not 0 <= size <= MAX_BODY:
        raise ValueError(f"a body of {size} bytes is not accepted")
    return size


def _start(status: int, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Scripted"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answer(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole answer with a JSON body."""
    named = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    return _start(status, named) + body


def stream_head(headers: Mapping[str, str] | None = None) -> bytes:
    """The head of an answer that is a stream of events."""
    named = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    return _start(200, {**named, "transfer-encoding": "chunked", **(headers or {})})


def chunk(data: bytes) -> bytes:
    """One chunk of a streamed answer."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def last_chunk() -> bytes:
    """The end of a streamed answer."""
    return b"0\r\n\r\n"
