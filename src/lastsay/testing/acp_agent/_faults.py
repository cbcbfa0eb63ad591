"""Modes that break the protocol, the line format or the process."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Final

from ._agent import SESSION, Agent, Mode

__all__ = ("MODES", "broken", "unreached")

# Modes that write what is no frame.


def broken(data: bytes) -> Mode:
    """A mode that writes `data` between two pieces of its answer."""

    def mode(agent: Agent) -> str:
        agent.chunk("Hello ")
        agent.raw(data)
        agent.chunk("there.")
        return "end_turn"

    mode.__doc__ = f"Writes {data!r} between two pieces."
    return mode


def _chunk(text: str) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "messageId": "msg-1", "content": content}


def log_object_with_the_prompts_id(agent: Agent) -> str:
    """A structured log line whose id is the prompt's."""
    agent.chunk("Hello ")
    agent.raw(json.dumps({"level": "info", "id": agent.prompt["id"]}).encode() + b"\n")
    agent.chunk("there.")
    return "end_turn"


def glued_answer(agent: Agent) -> str:
    """Text without a line end before the answer to the prompt."""
    agent.hello()
    agent.raw(b"done. ")
    return "end_turn"


def two_frames_in_one_line(agent: Agent) -> str:
    """Two frames without a line end between them."""
    for text in ("Hello ", "there."):
        update = {
            "sessionUpdate": "agent_message_chunk",
            "messageId": "msg-1",
            "content": {"type": "text", "text": text},
        }
        frame = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}}
        agent.raw(json.dumps(frame).encode())
    agent.raw(b"\n")
    return "end_turn"


def invalid_utf8_in_text(agent: Agent) -> str:
    """A frame with a byte that is not UTF-8 in its text."""
    update = (
        b'{"sessionUpdate":"agent_message_chunk","messageId":"msg-1","content":{"type":"text","text":"Hello \xff"}}'
    )
    params = b'{"sessionId":"session-1","update":' + update + b"}"
    agent.raw(b'{"jsonrpc":"2.0","method":"session/update","params":' + params + b"}\n")
    return "end_turn"


def character_cut_in_two(agent: Agent) -> str:
    """The two halves of a surrogate pair in two chunks."""
    agent.chunk("Hello \ud83d")
    agent.chunk("\ude00.")
    return "end_turn"


# Modes that bend the protocol.


def string_id(agent: Agent) -> None:
    """The answer's id is a string where the request's was a number."""
    agent.hello()
    agent.send({"id": str(agent.prompt["id"]), "result": {"stopReason": "end_turn"}})


def unknown_update(agent: Agent) -> str:
    """An update of a kind that no client knows."""
    agent.update("telepathy", strength=11)
    agent.hello()
    return "end_turn"


def update_without_kind(agent: Agent) -> str:
    """Updates that are none."""
    agent.send({"method": "session/update", "params": {"sessionId": SESSION, "update": {}}})
    agent.send({"method": "session/update", "params": None})
    agent.hello()
    return "end_turn"


def unknown_content(agent: Agent) -> str:
    """A content block of an unknown type, before the answer."""
    agent.update("agent_message_chunk", content={"type": "hologram", "data": "x"}, messageId="msg-0")
    agent.hello()
    return "end_turn"


def content_as_list(agent: Agent) -> str:
    """A list of blocks where one block was due."""
    content = [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there."}]
    agent.update("agent_message_chunk", content=content, messageId="msg-1")
    return "end_turn"


def unknown_stop_reason(agent: Agent) -> str:
    """A stop reason that no client knows."""
    agent.hello()
    return "out_of_coffee"


def empty_result(agent: Agent) -> None:
    """An answer without a stop reason."""
    agent.hello()
    agent.answer({})


def null_result(agent: Agent) -> None:
    """A null answer."""
    agent.hello()
    agent.answer(None)


def bad_usage(agent: Agent) -> None:
    """Token counts of wrong types beside the stop reason."""
    agent.hello()
    agent.answer({"stopReason": "end_turn", "usage": {"inputTokens": "many", "outputTokens": -1, "totalTokens": []}})


def meta_with_the_fields_names(agent: Agent) -> str:
    """`_meta` keys that are named as the notification's own fields."""
    update = {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "msg-1",
        "content": {"type": "text", "text": "Hello there."},
    }
    meta = {"session_id": "other", "update": {"sessionUpdate": "plan"}}
    params = {"sessionId": SESSION, "update": update, "_meta": meta}
    agent.send({"method": "session/update", "params": params})
    return "end_turn"


def answer_to_nothing(agent: Agent) -> str:
    """An answer to a request that was never made."""
    agent.hello()
    agent.send({"id": 4711, "result": {"stopReason": "refusal"}})
    return "end_turn"


def early_update(agent: Agent) -> str:
    """Text before the answer to session/new."""
    agent.hello(None)
    return "end_turn"


def late_text(agent: Agent) -> None:
    """Half of the answer comes after the stop reason."""
    agent.chunk("Hello ")
    agent.answer({"stopReason": "end_turn"})
    time.sleep(0.05)
    agent.chunk("there.")


def babble(agent: Agent) -> None:
    """Answers, and goes on sending updates for a minute."""
    agent.hello()
    agent.answer({"stopReason": "end_turn"})
    for _ in range(6000):
        agent.update("session_info_update", title="still here")
        time.sleep(0.01)


def warnings_without_ids(agent: Agent) -> str:
    """The harness's own text among the model's, without an id."""
    agent.chunk("Warning: low on disk.", None)
    agent.hello()
    agent.chunk("Warning: very low on disk.", None)
    return "end_turn"


def retry(agent: Agent) -> str:
    """The attempt is begun anew, under the same id, marked by a notification alone."""
    agent.chunk("Hello the")
    agent.send({"method": "_session/retrying", "params": {"sessionId": SESSION}})
    agent.hello()
    return "end_turn"


# Modes of the process.


def half_a_line_then_exit(agent: Agent) -> None:
    """Dies inside a line, with status 3."""
    agent.hello()
    agent.raw(b'{"jsonrpc":"2.0","method":"session/upd')
    os._exit(3)


def exit_zero(agent: Agent) -> None:
    """Leaves without an answer, with status 0."""
    agent.hello()
    os._exit(0)


def crash(agent: Agent) -> None:
    """Is killed in mid-stream."""
    agent.hello()
    os.kill(os.getpid(), signal.SIGKILL)


def closes_stdout(agent: Agent) -> None:
    """Closes its output and lives on."""
    agent.hello()
    os.close(1)
    time.sleep(600)


def answer_without_line_end(agent: Agent) -> None:
    """The last frame has no line end."""
    agent.hello()
    frame = {"jsonrpc": "2.0", "id": agent.prompt["id"], "result": {"stopReason": "end_turn"}}
    agent.raw(json.dumps(frame).encode())
    os._exit(0)


def stderr_flood(agent: Agent) -> str:
    """`--size` bytes on standard error before the answer."""
    sys.stderr.write("e" * agent.options.size)
    sys.stderr.flush()
    agent.hello()
    return "end_turn"


def grandchild(agent: Agent) -> str:
    """Starts a process that owns the output too and outlives it; the answer holds its number."""
    sleeper = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])  # ourselves
    agent.chunk(str(sleeper.pid))
    return "end_turn"


def orphan_then_exit(agent: Agent) -> None:
    """Starts a process that owns the output too, and dies without an answer."""
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])  # ourselves
    agent.hello()
    os._exit(5)


def hang(agent: Agent) -> str:
    """Says something and then nothing; ends when cancelled."""
    agent.hello()
    agent.cancelled.wait(600)
    return "cancelled"


def deaf(agent: Agent) -> None:
    """Says something, then ignores cancellation and SIGTERM."""
    agent.hello()
    time.sleep(600)


def end_turn_on_cancel(agent: Agent) -> str:
    """Says end_turn where it was cancelled."""
    agent.hello()
    agent.cancelled.wait(600)
    return "end_turn"


def error_on_cancel(agent: Agent) -> None:
    """Answers a cancellation with an error."""
    agent.hello()
    agent.cancelled.wait(600)
    agent.send({"id": agent.prompt["id"], "error": {"code": -32603, "message": "aborted"}})


def unreached(_agent: Agent) -> str:
    """Fails before a prompt comes."""
    return "end_turn"


MODES: Final[tuple[Mode, ...]] = (
    log_object_with_the_prompts_id,
    glued_answer,
    two_frames_in_one_line,
    invalid_utf8_in_text,
    character_cut_in_two,
    string_id,
    unknown_update,
    update_without_kind,
    unknown_content,
    content_as_list,
    unknown_stop_reason,
    empty_result,
    null_result,
    bad_usage,
    meta_with_the_fields_names,
    answer_to_nothing,
    early_update,
    late_text,
    babble,
    warnings_without_ids,
    retry,
    half_a_line_then_exit,
    exit_zero,
    crash,
    closes_stdout,
    answer_without_line_end,
    stderr_flood,
    grandchild,
    orphan_then_exit,
    hang,
    deaf,
    end_turn_on_cancel,
    error_on_cancel,
)
