"""A stand-in for the harness: speaks its protocol over standard input and output, and misbehaves on demand.

Usage: python fake_harness.py MODE [MODE...]
"""

import json
import os
import signal
import sys
from pathlib import Path

MODES = set(sys.argv[1:])
SEQ = {"n": 0}
WAITING: list[dict] = []


def say(frame: dict) -> None:
    """Send one frame."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
    sys.stdout.flush()


def answer(request: dict, result: dict | None = None) -> None:
    """Answer a request."""
    say({"id": request["id"], "result": result or {}})


def event(session: str, kind: str, data: dict) -> dict:
    """Send a session event, and return it as a line of the log."""
    row = {"type": kind, "seq": SEQ["n"], "time": 1000, "data": data}
    SEQ["n"] += 1
    say({"method": "session.event", "params": {"sessionId": session, "event": row}})
    return row


def status(session: str, word: str) -> None:
    """Send the session's status."""
    say({"method": "session.status", "params": {"sessionId": session, "status": word}})


def turn(session: str, number: int, text: str) -> None:
    """A whole turn that says a text."""
    at = {"turn": number, "step": 1}
    status(session, "running")
    event(session, "turn/start", {"turn": number})
    event(session, "step/start", at)
    stream = [{"type": "text-chunks", "time0": 1, "index": 0, "dt": [0], "texts": [text[:3], text[3:]]}]
    message = {"id": f"m{number}", "content": [{"type": "text", "text": text}]}
    event(session, "assistant/message", {**at, "message": message, "stream": stream})
    event(session, "step/end", at)
    event(session, "turn/end", {"turn": number, "reason": {"kind": "completed"}})
    status(session, "idle")


def hang(session: str) -> None:
    """A turn that is being streamed: on the wire it has only begun, the log will tell more."""
    status(session, "running")
    event(session, "turn/start", {"turn": 1})
    event(session, "step/start", {"turn": 1, "step": 1})


def write_log(session: str, *, closed: bool) -> None:
    """The log of the hanging turn: the interrupted message, and the end of the turn unless it was killed."""
    message = {"id": "m", "content": [{"type": "text", "text": "so far"}]}
    more = [("assistant/message", {"turn": 1, "step": 1, "message": message, "interrupted": True})]
    if closed:
        more += [("turn/end", {"turn": 1, "reason": {"kind": "aborted", "reason": {"kind": "disposed"}}})]
    rows: list[dict] = [{"type": "session", "version": 4, "id": session, "createdAt": 1, "isSeeded": False}]
    rows += [{"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}]
    rows += [{"type": "step/start", "seq": 1, "time": 1, "data": {"turn": 1, "step": 1}}]
    rows += [{"type": kind, "seq": 2 + at, "time": 1, "data": data} for at, (kind, data) in enumerate(more)]
    folder = Path(os.environ["DSH_HOME"]) / "sessions" / "--x--" / session
    folder.mkdir(parents=True)
    (folder / "session.v4.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"type":"tur')


def prompt(request: dict, number: int) -> None:
    """Take a prompt, and do what the mode says."""
    session = request["params"]["sessionId"]
    if "refuse-prompt" in MODES:
        say({"id": request["id"], "error": {"code": -32603, "message": "no such session"}})
        return
    answer(request, {"messageId": "u"})
    if "ask" in MODES:
        say({"id": 77, "method": "client/ask", "params": {}})
        while (reply := json.loads(sys.stdin.readline())).get("id") != 77:
            WAITING.append(reply)
        assert reply["error"]["code"] == -32601
    if "noise" in MODES:
        sys.stdout.write("not a frame\n")
    if {"hang", "kill", "close"} & MODES:
        hang(session)
    else:
        turn(session, number, f"Answer {number}.")
    if "close" in MODES:
        os.close(1)
        while sys.stdin.readline():
            pass
        os._exit(0)
    if "kill" in MODES:
        write_log(session, closed=False)
        sys.stderr.write("about to die\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Answer requests until the input ends."""
    if "mute" in MODES:
        sys.stdin.read()
    if "exit" in MODES:
        sys.exit("no home here")
    prompts, session = 0, ""
    while WAITING or (line := sys.stdin.readline()):
        request = WAITING.pop(0) if WAITING else json.loads(line)
        method = request.get("method")
        if method == "initialize" and "refuse" in MODES:
            say({"id": request["id"], "error": {"code": -32603, "message": "no such model"}})
        elif method == "session/prompt":
            prompts, session = prompts + 1, request["params"]["sessionId"]
            prompt(request, prompts)
        elif method == "session/wait" and "no-wait" in MODES:
            say({"id": request["id"], "error": {"code": -32603, "message": "unknown method: session/wait"}})
        elif method == "session/wait" and "hang" in MODES:
            continue
        elif method == "shutdown":
            if "hang" in MODES:
                write_log(session, closed=True)
            if "deaf" not in MODES:
                answer(request)
        elif "method" in request:
            answer(request)


if __name__ == "__main__":
    main()
