"""The agent's side of a connection, for a scripted agent."""

import argparse
import json
import os
import queue
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ("CHILD", "SESSION", "Agent", "Mode")

SESSION: Final = "session-1"
CHILD: Final = "session-1-child"


class Agent:
    """The agent's side of a connection; it plays one mode for every prompt."""

    def __init__(self, options: argparse.Namespace, mode: "Mode") -> None:
        self.options = options
        self._mode = mode
        self.cancelled = threading.Event()
        self.prompt: Any = None
        self.version = 1
        self._frames: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._answers: dict[str, queue.Queue[dict[str, Any]]] = defaultdict(queue.Queue)

    def read(self) -> None:
        """Read frames until the input ends; cancellations and answers are taken out of the order."""
        for line in sys.stdin.buffer:
            frame = json.loads(line)
            if frame.get("method") == "session/cancel":
                self.cancelled.set()
            elif "method" not in frame:
                self._answers[str(frame.get("id"))].put(frame)
            else:
                self._frames.put(frame)
        self._frames.put(None)

    def raw(self, data: bytes) -> None:
        """Write bytes to standard output."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def send(self, frame: Mapping[str, Any]) -> None:
        """Write one frame."""
        self.raw(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def update(self, update: str, /, *, session: str = SESSION, **fields: Any) -> None:
        """Send one update."""
        params = {"sessionId": session, "update": {"sessionUpdate": update, **fields}}
        self.send({"method": "session/update", "params": params})

    def chunk(self, text: str, message: str | None = "msg-1", **more: Any) -> None:
        """Send a piece of text."""
        ids = {} if message is None else {"messageId": message}
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **ids, **more)

    def hello(self, message: str | None = "msg-1") -> None:
        """Say the usual answer in two pieces."""
        self.chunk("Hello ", message)
        self.chunk("there.", message)

    def tool(self, call: str = "call-1") -> None:
        """Run a tool call that succeeds."""
        self.update("tool_call", toolCallId=call, title="List files", kind="execute", status="pending", rawInput={})
        self.update("tool_call_update", toolCallId=call, status="in_progress", rawInput={"command": "ls"})
        content = [{"type": "content", "content": {"type": "text", "text": "a.txt"}}]
        self.update("tool_call_update", toolCallId=call, status="completed", content=content)

    def ask(self, identity: str, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self.send({"id": identity, "method": method, "params": dict(params)})
        return self.answer_to(identity)

    def answer_to(self, identity: str) -> dict[str, Any]:
        """Wait for the answer to a request."""
        return self._answers[identity].get()

    def answer(self, result: Any) -> None:
        """Answer the prompt."""
        self.send({"id": self.prompt["id"], "result": result})

    def serve(self) -> None:
        """Answer requests until the input ends."""
        while (frame := self._frames.get()) is not None:
            method = frame.get("method")
            if method == "initialize":
                self._initialize(frame)
            elif method == "session/new":
                self._new_session(frame)
            elif method == "session/prompt":
                self.prompt = frame
                if self.version == 2:
                    self.answer({})
                stop = self._mode(self)
                if stop is not None:
                    self._end(stop)
            elif self.options.mode == "refuse_config":
                self.send({"id": frame["id"], "error": {"code": -32602, "message": "no such option"}})
            elif "id" in frame:
                self.send({"id": frame["id"], "result": {}})

    def _end(self, stop: str) -> None:
        if self.version == 2:
            self.update("state_update", state="idle", stopReason=stop)
        else:
            self.answer({"stopReason": stop})

    def _initialize(self, frame: dict[str, Any]) -> None:
        mode = self.options.mode
        if mode == "exit_at_start":
            sys.stderr.write("no configuration found\n")
            sys.stderr.flush()
            os._exit(9)
        if mode == "hang_at_start":
            time.sleep(600)
        if mode == "banner_before_first_frame":
            self.raw(b"Welcome!\n\x1b[1mbold\x1b[0m\n42\n[]\nnull\nloading... ")
        self.version = 2 if mode.startswith("second_") and frame["params"]["protocolVersion"] == 2 else 1
        info = {"name": self.options.name, "version": "1"}
        second = {"info": info, "capabilities": {"session": {}}}
        first = {"agentInfo": info, "agentCapabilities": {"subagents": {}} if mode == "children" else {}}
        result = {"protocolVersion": self.version, **(second if self.version == 2 else first)}
        self.send({"id": frame["id"], "result": result})

    def _new_session(self, frame: dict[str, Any]) -> None:
        mode = self.options.mode
        if mode == "refuse_session":
            self.send({"id": frame["id"], "error": {"code": -32000, "message": "Authentication required"}})
            return
        if mode == "early_update":
            self.chunk("Early. ", None)
        self.send({"id": frame["id"], "result": {"sessionId": SESSION}})


Mode = Callable[[Agent], str | None]
"""Plays one prompt; gives the stop reason, or None if it has answered itself."""
