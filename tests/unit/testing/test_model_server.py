"""The scripted model server, seen over its sockets."""

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from lastsay.errors import UsageError
from lastsay.testing.model_server import (
    BUILT_IN,
    Attempts,
    CallTool,
    Hang,
    HttpError,
    ModelServer,
    Say,
    Scenario,
    SseError,
    Tokens,
    delegating,
    marker,
    model_server,
)

ANTHROPIC, OPENAI = "/v1/messages", "/v1/chat/completions"


@pytest.fixture(name="server")
def running_server() -> Iterator[ModelServer]:
    """A model server of its own for each test."""
    with model_server() as server:
        yield server


def post(server: ModelServer, body: Any, path: str = ANTHROPIC, **headers: str) -> tuple[int, str]:
    """Status and body of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def ask(*content: str, turns: int = 0, stream: bool = True, **more: Any) -> dict[str, Any]:
    """A request body whose history holds so many assistant turns after the prompt."""
    messages: list[Any] = [{"role": "user", "content": text} for text in content]
    for number in range(turns):
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"turn {number}"}]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "done"}]})
    return {"model": "m", "messages": messages, "stream": stream, **more}


def events(text: str) -> list[Any]:
    """The data of the server-sent events."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def said(text: str) -> str:
    """The text of all text deltas of a Messages stream."""
    return "".join(e["delta"].get("text", "") for e in events(text) if e["type"] == "content_block_delta")


def test_messages_stream_has_the_order_of_the_protocol(server: ModelServer) -> None:
    """Start, block start, deltas, block stop, message delta with the stop reason, stop."""
    status, text = post(server, ask("[[scenario:text text='abc def' pieces=2]]"))
    kinds = [event["type"] for event in events(text) if event["type"] != "ping"]
    assert 200 == status
    assert [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ] == kinds
    assert "abc def" == said(text)
    assert "end_turn" == events(text)[-2]["delta"]["stop_reason"]


def test_chat_completions_stream_ends_with_usage_and_done(server: ModelServer) -> None:
    """Text, finish reason, the usage chunk that was asked for, and the end mark."""
    body = ask("[[scenario:max-tokens text=abc]]", stream_options={"include_usage": True})
    status, text = post(server, body, "/any/prefix/chat/completions")
    chunks = events(text)
    joined = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
    assert (200, "abc") == (status, joined)
    assert "length" == chunks[-2]["choices"][0]["finish_reason"]
    assert [] == chunks[-1]["choices"]
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert text.endswith("data: [DONE]\n\n")


def test_tool_calls_arrive_in_both_protocols(server: ModelServer) -> None:
    """Names, whole inputs and distinct ids of parallel calls."""
    body = ask("[[scenario:parallel-tools tool=peek input='{\"a\": 1}' calls=2]]")
    starts = [e["content_block"] for e in events(post(server, body)[1]) if e["type"] == "content_block_start"]
    calls = [block for block in starts if block["type"] == "tool_use"]
    assert ["peek", "peek"] == [call["name"] for call in calls]
    assert 2 == len({call["id"] for call in calls})
    arguments: dict[int, str] = {}
    for piece in events(post(server, body, OPENAI)[1]):
        for call in piece["choices"][0]["delta"].get("tool_calls", ()):
            arguments[call["index"]] = arguments.get(call["index"], "") + call["function"]["arguments"]
    assert {0: {"a": 1}, 1: {"a": 1}} == {index: json.loads(text) for index, text in arguments.items()}


def test_a_cut_call_is_not_json_and_stops_with_max_tokens(server: ModelServer) -> None:
    """The JSON of a cut tool call ends in the middle."""
    got = events(post(server, ask("[[scenario:max-tokens-in-tool]]"))[1])
    text = "".join(e["delta"].get("partial_json", "") for e in got if e["type"] == "content_block_delta")
    assert text.startswith("{")
    with pytest.raises(ValueError, match=r"."):
        json.loads(text)
    assert "max_tokens" == got[-2]["delta"]["stop_reason"]


def test_the_turn_is_counted_from_the_marker(server: ModelServer) -> None:
    """Assistant turns in the history choose the turn, and the last turn repeats."""
    bodies = [ask("[[scenario:max-tokens]]", turns=turns) for turns in (0, 1, 5)]
    texts = [said(post(server, body)[1]) for body in bodies]
    assert ["First piece of a long answer. ", "Second piece. ", "Fourth piece. "] == texts
    assert [0, 1, 5] == [request.turn for request in server.requests]


def test_the_last_marker_wins_and_restarts_the_count(server: ModelServer) -> None:
    """A later marker in the same conversation starts its own scenario from its first turn."""
    body = ask("[[scenario:empty]]", turns=2)
    body["messages"].append({"role": "user", "content": [{"type": "text", "text": "[[scenario:max-tokens-once]]"}]})
    post(server, body)
    assert ("max-tokens-once", 0) == (server.requests[0].scenario, server.requests[0].turn)


def test_markers_in_tool_results_and_assistant_messages_do_not_count(server: ModelServer) -> None:
    """A parent that quotes its child's prompt stays in its own scenario."""
    body = ask("[[scenario:delegate]]", turns=1)
    body["messages"][1]["content"] = "I pass on: [[scenario:refusal]]"
    body["messages"][2]["content"][0]["content"] = [{"type": "text", "text": "[[scenario:refusal]]"}]
    post(server, body)
    assert ("delegate", 1) == (server.requests[0].scenario, server.requests[0].turn)


def test_a_marker_in_the_system_prompt_is_the_second_choice(server: ModelServer) -> None:
    """Without a marker in a user message the system prompt is searched, in both protocols."""
    post(server, ask("hello", system=[{"type": "text", "text": "[[scenario:refusal]]"}]))
    openai = ask("hello")
    openai["messages"].insert(0, {"role": "system", "content": "[[scenario:empty]]"})
    post(server, openai, OPENAI)
    assert ["refusal", "empty"] == [request.scenario for request in server.requests]


def test_retries_are_counted_per_conversation(server: ModelServer) -> None:
    """The same history again is the next attempt; cache marks do not matter, another session does."""
    body = ask("[[scenario:cut-once]]")
    marked = json.loads(json.dumps(body))
    marked["messages"][0]["content"] = [{"type": "text", "text": body["messages"][0]["content"]}]
    again = json.loads(json.dumps(marked))
    again["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    with pytest.raises(http.client.IncompleteRead):
        post(server, marked)
    assert said(post(server, again)[1]).startswith("The harbour")
    with pytest.raises(http.client.IncompleteRead):
        post(server, marked, **{"x-session-id": "other"})
    assert [(0, "cut"), (1, "complete"), (0, "cut")] == [(r.attempt, r.ended) for r in server.requests]


@pytest.mark.parametrize(("path", "kind"), [(ANTHROPIC, "overloaded_error"), (OPENAI, "overloaded_error")])
def test_http_errors_have_the_body_of_their_protocol(server: ModelServer, path: str, kind: str) -> None:
    """Status and error type go together."""
    status, text = post(server, ask("[[scenario:http-529]]"), path)
    assert (529, kind) == (status, json.loads(text)["error"]["type"])


def test_an_error_event_ends_the_stream(server: ModelServer) -> None:
    """The error comes after the text, and nothing comes after the error."""
    text = post(server, ask("[[scenario:sse-error]]"))[1]
    assert said(text)
    assert "overloaded_error" == events(text)[-1]["error"]["type"]
    assert "overloaded_error" == events(post(server, ask("[[scenario:sse-error]]"), OPENAI)[1])[-1]["error"]["type"]


@pytest.mark.parametrize("path", [ANTHROPIC, OPENAI])
@pytest.mark.parametrize("scenario", [s.name for s in BUILT_IN if "hang" not in s.name and s.name != "slow"])
def test_every_scenario_answers_with_and_without_streaming(server: ModelServer, path: str, scenario: str) -> None:
    """No built-in scenario breaks the server, in its first turns, in either form."""
    for turns in (0, 1):
        for stream in (True, False):
            try:
                status, text = post(server, ask(f"[[scenario:{scenario}]]", turns=turns, stream=stream), path)
            except (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionResetError):
                assert "cut" in scenario
            else:
                assert text
                assert (status >= 400) <= ("error" in scenario or "http" in scenario)
    assert {"complete", "cut"} >= {request.ended for request in server.requests}


def test_without_streaming_the_same_content_comes_whole(server: ModelServer) -> None:
    """One JSON object with the blocks, the stop reason and the counts."""
    server.register(Scenario("own", "mine", ((Say(("a", "b")), CallTool("t", {"x": 1}, id="c1"), Tokens(3, 4)),)))
    whole = json.loads(post(server, ask("[[scenario:own]]", stream=False))[1])
    assert [
        {"type": "text", "text": "ab"},
        {"type": "tool_use", "id": "c1", "name": "t", "input": {"x": 1}},
    ] == whole["content"]
    assert ("tool_use", 3, 4) == (
        whole["stop_reason"],
        whole["usage"]["input_tokens"],
        whole["usage"]["output_tokens"],
    )
    choice = json.loads(post(server, ask("[[scenario:own]]", stream=False), OPENAI)[1])["choices"][0]
    assert ("ab", "tool_calls") == (choice["message"]["content"], choice["finish_reason"])


def test_a_delegation_carries_the_childs_marker(server: ModelServer) -> None:
    """The child's prompt names the child's scenario, with the child's own arguments."""
    server.register(delegating("hand-over", tool="spawn", input={"kind": "x"}, prompt_key="task"))
    prompt = marker("hand-over", child="text", **{"child.text": "I am the child's answer"})
    whole = json.loads(post(server, ask(prompt, stream=False))[1])
    (call,) = [block for block in whole["content"] if block["type"] == "tool_use"]
    assert ("spawn", "x") == (call["name"], call["input"]["kind"])
    assert "I am the child's answer" == said(post(server, ask(call["input"]["task"]))[1])


def test_unknown_scenarios_and_bad_arguments_are_http_400(server: ModelServer) -> None:
    """A wrong marker is answered with the names that would be right; a wrong argument with its reason."""
    status, text = post(server, ask("[[scenario:nonsense]]"))
    assert (400, True) == (status, "max-tokens-once" in text)
    status, text = post(server, ask("[[scenario:tool-then-text input=[1]]]"))
    assert (400, True) == (status, "must be a JSON object" in text)


def test_other_paths_and_broken_requests_do_not_hurt(server: ModelServer) -> None:
    """HEAD is answered, unknown paths are 404, no JSON is an empty request, no HTTP is 400."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("HEAD", "/api/hello")
    response = connection.getresponse()
    assert (200, b"") == (response.status, response.read())
    connection.request("GET", "/v1/models")
    response = connection.getresponse()
    assert 404 == response.status
    response.read()
    connection.request("POST", ANTHROPIC, b"\xff not json", {"content-type": "application/json"})
    assert 200 == connection.getresponse().status
    connection.close()
    assert 200 == post(server, {"messages": "none", "system": 3})[0]
    assert 1 <= json.loads(post(server, ask("x"), "/v1/messages/count_tokens")[1])["input_tokens"]
    raw = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    raw.connect()
    raw.sock.sendall(b"nonsense\r\n\r\n")
    assert raw.sock.recv(12).endswith(b"400")
    raw.close()


def test_chunked_request_bodies_are_read(server: ModelServer) -> None:
    """A client may send its request in chunks."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    body = json.dumps(ask("[[scenario:text text=chunked]]")).encode()
    pieces = iter([body[:20], body[20:]])
    connection.request("POST", ANTHROPIC, pieces, {"transfer-encoding": "chunked"}, encode_chunked=True)
    assert "chunked" == said(connection.getresponse().read().decode())
    connection.close()


def test_a_hanging_answer_notices_that_the_client_left(server: ModelServer) -> None:
    """The request is recorded as gone, and the server goes on serving."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("POST", ANTHROPIC, json.dumps(ask("[[scenario:hang]]")))
    response = connection.getresponse()
    assert b"message_start" in response.read(400)
    response.close()
    connection.close()
    for _ in range(200):
        if server.requests[0].ended:
            break
        anyio.run(anyio.sleep, 0.01)
    assert "gone" == server.requests[0].ended
    assert 200 == post(server, ask("x"))[0]


def test_leaving_while_an_answer_hangs_does_not_wait(server: ModelServer) -> None:
    """A server with an open, hanging connection can be closed."""
    with model_server() as other:
        connection = http.client.HTTPConnection("127.0.0.1", other.port, timeout=5)
        connection.request("POST", ANTHROPIC, json.dumps(ask("[[scenario:hang-first]]")))
        connection.getresponse()
    assert ["gone"] == [request.ended for request in other.requests]
    connection.close()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_async_entry_works_under_both_event_loops(anyio_backend: str) -> None:
    """The same object is an async context manager, under asyncio and trio."""
    async with model_server(default="empty") as server:
        status, _ = await anyio.to_thread.run_sync(post, server, ask("no marker here"))
    assert (200, "empty") == (status, server.requests[0].scenario)
    assert server.played("empty") == server.requests


def test_a_taken_port_is_an_error_of_the_entry(server: ModelServer) -> None:
    """The second server on one port fails on entry with the system's error."""
    with pytest.raises(OSError, match=r"in use"), model_server(port=server.port):
        pass


def test_wrong_scenarios_are_refused_when_they_are_made() -> None:
    """No turns, an HTTP error inside a stream, an unknown default: named at once."""
    with pytest.raises(ValueError, match="at least one turn"):
        Scenario("x", "x", ())
    with pytest.raises(ValueError, match="at least one turn"):
        Attempts(())
    with pytest.raises(ValueError, match="first step"):
        Scenario("x", "x", ((Say("a"), HttpError()),))
    with pytest.raises(UsageError, match="no scenario named 'nope'"):
        model_server(default="nope")


def test_attempts_and_timed_hangs_play_in_order(server: ModelServer) -> None:
    """Each try gets its own turn and the last one repeats; a hang with a limit goes on."""
    tries = Attempts(((HttpError(503),), (SseError("api_error"),), (Say("a"), Hang(0.01), Say("b"))))
    server.register(Scenario("tries", "three tries", (tries,)))
    got = [post(server, ask("[[scenario:tries]]")) for _ in range(4)]
    assert [503, 200, 200, 200] == [status for status, _ in got]
    assert ["", "ab", "ab"] == [said(text) for _, text in got[1:]]


def test_markers_quote_their_arguments() -> None:
    """What `marker` writes is read back; what cannot be written is refused."""
    assert "[[scenario:text text='it'\"'\"'s two words']]" == marker("text", text="it's two words")
    with pytest.raises(ValueError, match="not a scenario name"):
        marker("two words")
    with pytest.raises(ValueError, match=re.escape("]]")):
        marker("text", text="a]]b")


def test_the_command_lists_its_scenarios() -> None:
    """`python -m lastsay.testing.model_server --list` names every built-in scenario."""
    command = [sys.executable, "-m", "lastsay.testing.model_server", "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [s.name for s in BUILT_IN] == [line.split()[0] for line in done.stdout.splitlines()]
