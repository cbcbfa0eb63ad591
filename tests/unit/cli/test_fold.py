"""`lastsay fold`: what is printed, what is complained about, and the exit status."""

import io
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from lastsay.cli import main
from lastsay.events import Event, Message, RunEnded, RunStarted, Text, TextDelta, encode, encode_many

ANSWER = Message((Text("The answer."),), "m1")


def log(folder: Path, *events: Event, name: str = "log.ndjson") -> Path:
    """A log of the events."""
    path = folder / name
    path.write_bytes(encode_many(events))
    return path


def fold(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of `lastsay fold`."""
    status = main(["fold", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_each_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A parent and its child: name, stop reason, source and text; the child marked as one."""
    path = log(
        tmp_path,
        RunStarted(),
        RunStarted(parent="main", agent="scout", run="c"),
        TextDelta("half\nof it", run="c"),
        RunEnded("max-tokens", run="c"),
        ANSWER,
        RunEnded("completed"),
    )
    status, out, err = fold(path, capsys=capsys)
    assert (0, "") == (status, err)
    assert [
        ["main", "completed", "message", "The", "answer."],
        ["└", "scout", "max-tokens", "streamed", "half", "of", "it"],
    ] == [line.split() for line in out.splitlines()]


def test_json_has_one_object_for_each_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run, parent, agent and all fields of the outcome."""
    path = log(tmp_path, RunStarted(agent="boss"), ANSWER, RunEnded("completed"))
    _, out, _ = fold("--json", path, path, capsys=capsys)
    (one,) = [json.loads(line) for line in out.splitlines()]
    assert ("main", None, "boss", "completed") == (one["run"], one["parent"], one["agent"], one["stop_reason"])
    assert [{"type": "text", "text": "The answer."}] == one["output"]


@pytest.mark.parametrize(
    ("stop_reason", "expected"),
    [("completed", 0), ("max-tokens", 3), ("refusal", 4), ("aborted", 5), ("error", 6), ("max-turns", 6)],
)
def test_the_exit_status_tells_the_stop_reason(
    stop_reason: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One number for each reason; one that is not known is a failure."""
    assert expected == fold(log(tmp_path, ANSWER, RunEnded(stop_reason)), capsys=capsys)[0]


def test_the_largest_status_of_the_roots_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several logs: the largest status; a child's reason does not count."""
    good = log(tmp_path, ANSWER, RunEnded("completed"), RunStarted(parent="main", run="c"), RunEnded("error", run="c"))
    cut = log(tmp_path, ANSWER, RunEnded("max-tokens"), name="cut.ndjson")
    assert 0 == fold(good, capsys=capsys)[0]
    status, out, _ = fold(good, cut, capsys=capsys)
    assert 3 == status
    assert [str(good), str(cut)] == [line for line in out.splitlines() if line.startswith(str(tmp_path))]


def test_the_policy_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Streamed text after the last message is the answer under one policy, and not under the other."""
    path = log(tmp_path, ANSWER, TextDelta("A newer one", "m2"), RunEnded("aborted"))
    assert "The answer." in fold(path, capsys=capsys)[1]
    assert "A newer one" in fold(path, "--policy", "answer", capsys=capsys)[1]


GOOD = encode(ANSWER) + encode(RunEnded("completed"))


@pytest.mark.parametrize(
    ("data", "faults"),
    [
        pytest.param(GOOD[:-9], ["truncated_line"], id="cut last line"),
        pytest.param(GOOD + b"\0" * 4096, ["nul_padding"], id="NUL padding"),
        pytest.param(encode(TextDelta("x" * 5_000_000)) + GOOD, [], id="5 MB line"),
        pytest.param(b"[1, 2]\n" + GOOD + b'"text"\n', ["not_an_object", "not_an_object"], id="non-object JSON"),
        pytest.param(GOOD.replace(b"\n", b"\r\n"), [], id="CRLF"),
        pytest.param(b"\xef\xbb\xbf" + GOOD, [], id="BOM"),
        pytest.param(encode(TextDelta("a\u2028b\u2029c")) + GOOD, [], id="raw U+2028"),
        pytest.param(b"\x7fELF\xff\x00garbage\n" + GOOD, ["invalid_json"], id="binary line"),
        pytest.param(b'{"type": "text_delta", "text": 5}\n' + GOOD, ["invalid_event"], id="wrong field"),
        pytest.param(b'{"type": "of_tomorrow", "x": 1}\n' + GOOD, [], id="unknown event"),
        pytest.param(b"\n\n  \n" + GOOD, [], id="empty lines"),
        pytest.param(b'{"type":"text_delta","text":"\\ud800"}\n' + GOOD, [], id="lone surrogate"),
    ],
)
def test_bad_input_costs_only_itself(
    data: bytes, faults: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each fault is named on standard error with its line, and the rest is read."""
    path = tmp_path / "log.ndjson"
    path.write_bytes(data)
    _, out, err = fold("--json", path, capsys=capsys)
    (run,) = [json.loads(line) for line in out.splitlines()]
    assert [{"type": "text", "text": "The answer."}] == run["output"]
    assert faults == [line.split(": ")[2] for line in err.splitlines()]
    assert all("line " in line for line in err.splitlines())


@pytest.mark.parametrize("data", [b"", bytes(range(256)) * 40], ids=["empty", "binary"])
def test_files_without_events_are_named(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty or binary file: one sentence, status 6; with a format given, its faults."""
    path = tmp_path / "x.ndjson"
    path.write_bytes(data)
    status, out, err = fold(path, capsys=capsys)
    assert (6, "", 1) == (status, out, len(err.splitlines()))
    assert str(path) in err
    assert 6 == fold(path, "--format", "lastsay", capsys=capsys)[0]


def test_many_faults_are_counted_not_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first five and one line of counts by kind."""
    path = tmp_path / "log.ndjson"
    path.write_bytes(GOOD + b"nonsense\n" * 1000 + b"[]\n" * 7)
    _, _, err = fold(path, capsys=capsys)
    lines = err.splitlines()
    assert 6 == len(lines)
    assert "1007 faults in all (1000 invalid_json, 7 not_an_object); the rest was read" in lines[-1]


def test_a_missing_file_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and the name in the message."""
    status, _, err = fold(tmp_path / "nope", capsys=capsys)
    assert (2, True) == (status, "no such file or folder" in err)


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The good log is printed, and the status says that something was wrong."""
    empty = tmp_path / "empty"
    empty.touch()
    status, out, err = fold(empty, log(tmp_path, ANSWER, RunEnded("completed")), capsys=capsys)
    assert (6, True, True) == (status, "The answer." in out, "empty: no events" in err)


def test_standard_input_is_a_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`-` reads standard input, and complaints call it that."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"oops\n" + GOOD)))
    status, out, err = fold("-", capsys=capsys)
    assert (0, True, True) == (status, "The answer." in out, "standard input: invalid_json" in err)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    status, _, err = fold("-", capsys=capsys)
    assert (6, "lastsay: standard input: empty: no events in it\n") == (status, err)


def test_a_bar_is_shown_for_long_input_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing on a pipe; on a terminal a bar, and only from a certain size on."""
    path = log(tmp_path, ANSWER, RunEnded("completed"))
    monkeypatch.setattr("lastsay.cli._fold._LONG_INPUT", 10)
    assert "reading" not in fold(path, capsys=capsys)[2]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "reading" in fold(path, capsys=capsys)[2]


COMMAND = [sys.executable, "-c", "import sys; from lastsay.cli import main; sys.exit(main())", "fold"]


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """Status 141 and not a word, as with any Unix tool."""
    events: list[Event] = [TextDelta("x" * 50, run=f"r{n}") for n in range(5000)]
    path = log(tmp_path, *events)
    child = subprocess.Popen([*COMMAND, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    complaint = child.stderr.read()
    child.stderr.close()
    assert (141, b"") == (child.wait(10), complaint)


def test_ctrl_c_ends_quietly() -> None:
    """Status 130 and no traceback."""
    child = subprocess.Popen([*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdin is not None
    waiting = threading.Event()
    feeder = threading.Thread(target=_feed, args=(child.stdin, waiting))
    feeder.start()
    assert waiting.wait(10)  # more than a pipe holds was taken: it is reading
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=10)
    feeder.join(10)
    assert (130, b"") == (child.returncode, err)


def _feed(stdin: "io.BufferedIOBase", waiting: threading.Event) -> None:
    stdin.write(GOOD * 20_000)
    stdin.flush()
    waiting.set()
