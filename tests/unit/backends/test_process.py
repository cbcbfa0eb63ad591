"""The shared child-process plumbing, against real children that misbehave."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import anyio
import pytest

from lastsay.backends import _process
from lastsay.backends._process import ChildProcess, open_child
from lastsay.errors import SourceError, UsageError
from lastsay.events import Fault


def python(code: str) -> list[str]:
    """The command that runs `code`."""
    return [sys.executable, "-S", "-c", code]


async def all_lines(child: ChildProcess) -> list[bytes | Fault]:
    """Everything the child writes until its output ends."""
    out: list[bytes | Fault] = []
    while batch := await child.lines():
        out += [item if isinstance(item, Fault) else item[1] for item in batch]
    return out


def alive(pid: int) -> bool:
    """Whether a process lives; one that waits to be reaped does not."""
    stat = _process._stat(str(pid))
    return stat is not None and stat.state != "Z"


def descriptors() -> int:
    """How many file descriptors are open here."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def gone(pid: int) -> bool:
    """Whether the process is gone within five seconds."""
    for _ in range(500):
        if not alive(pid):
            return True
        await anyio.sleep(0.01)
    return False


@pytest.mark.asyncio
async def test_lines_come_in_order_and_end_with_an_empty_list() -> None:
    """Every line arrives once and in order, the last one without its line end, and the exit status is known."""
    code = "import sys\nfor i in range(50000): print(i)\nsys.stdout.write('tail'); sys.stdout.flush(); sys.exit(3)"
    async with open_child(python(code)) as child:
        lines = await all_lines(child)
        assert await child.exited(5)
    assert [*(b"%d" % i for i in range(50000)), b"tail"] == lines
    assert child.exit_status == 3


@pytest.mark.asyncio
async def test_a_ready_burst_is_one_list() -> None:
    """What was written at once is handed over at once."""
    async with open_child(python("import os; os.write(1, b'a\\nb\\nc\\n')")) as child:
        assert [(1, b"a"), (2, b"b"), (3, b"c")] == await child.lines()


@pytest.mark.asyncio
async def test_a_slow_consumer_stops_the_child() -> None:
    """A child that writes 64 MB to a consumer that takes nothing is held up by its own pipe."""
    code = "import sys\nfor i in range(64): sys.stdout.write(('x'*1023+'\\n')*1024)"
    async with open_child(python(code)) as child:
        await anyio.sleep(0.3)
        assert child._held <= 2 * _process.HIGH_WATER
        assert child.exit_status is None
        assert 64 * 1024 == len(await all_lines(child))


@pytest.mark.asyncio
async def test_megabytes_on_standard_error_do_not_block_the_child() -> None:
    """5 MB on standard error are drained, and the newest 64 KiB of it are kept."""
    code = "import sys\nsys.stderr.write('e'*5_000_000 + 'END'); sys.stderr.flush(); print('done')"
    async with open_child(python(code)) as child:
        assert [b"done"] == await all_lines(child)
        assert await child.exited(5)
        await anyio.sleep(0.05)
        assert child.stderr.endswith("eEND")
        assert len(child.stderr) == 64 * 1024


@pytest.mark.asyncio
async def test_a_line_over_the_cap_is_skipped_and_named() -> None:
    """The long line costs itself only."""
    code = "print('a'); print('b'*5000); print('c')"
    async with open_child(python(code), max_line=1000) as child:
        first, fault, last = await all_lines(child)
    assert (b"a", b"c") == (first, last)
    assert isinstance(fault, Fault)
    assert fault.kind == "line_too_long"


@pytest.mark.asyncio
async def test_sending_to_a_closed_pipe_is_false_and_not_an_error() -> None:
    """A child that went away cannot hurt its writer."""
    async with open_child(python("import os; os.close(0); print('closed', flush=True); input")) as child:
        assert [b"closed"] == await all_lines(child)
        assert await child.exited(5)
        assert not child.send(b"x\n")
        child.close_stdin()
        child.signal(signal.SIGTERM)


@pytest.mark.asyncio
async def test_a_child_that_writes_before_it_reads_cannot_lock_up() -> None:
    """2 MB are sent to a child that first writes 2 MB."""
    code = "import sys\nprint('x'*2_000_000, flush=True)\nprint(len(sys.stdin.readline()), flush=True)"
    async with open_child(python(code)) as child:
        assert child.send(b"y" * 2_000_000 + b"\n")
        assert [2_000_000, 7] == [len(line) for line in await all_lines(child) if isinstance(line, bytes)]


@pytest.mark.asyncio
async def test_a_child_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM is followed by SIGKILL, and nothing it still writes blocks its end."""
    monkeypatch.setattr(_process, "_TERM_BOUND", 0.2)
    code = (
        "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('up', flush=True)\nwhile True: sys.stdout.write('x'*100+'\\n')"
    )
    async with open_child(python(code)) as child:
        assert (1, b"up") == (await child.lines())[0]
    assert child.exit_status == -signal.SIGKILL


@pytest.mark.asyncio
@pytest.mark.parametrize("detach", [False, True], ids=["same_group", "own_session"])
async def test_a_grandchild_does_not_outlive_the_block(*, detach: bool) -> None:
    """Whatever the child started is gone, also when it moved to a session of its own."""
    code = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-S', '-c', 'import time; time.sleep(60)']\n"
        f"p = subprocess.Popen(command, start_new_session={detach})\n"
        "print(p.pid, flush=True)\ntime.sleep(60)"
    )
    async with open_child(python(code)) as child:
        first = (await child.lines())[0]
        assert not isinstance(first, Fault)
        pid = int(first[1])
        assert alive(pid)
    assert await gone(pid)


@pytest.mark.asyncio
async def test_a_grandchild_that_owns_the_pipe_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child exits and leaves its output open in a sleeping grandchild: the output ends all the same."""
    monkeypatch.setattr(_process, "_ORPHAN_BOUND", 0.2)
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        "print(p.pid, flush=True)"
    )
    async with open_child(python(code)) as child:
        (pid,) = [int(line) for line in await all_lines(child) if isinstance(line, bytes)]
        assert child.exit_status == 0
    assert await gone(pid)


@pytest.mark.asyncio
async def test_a_grandchild_that_still_talks_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the exit of the child the output goes on for as long as something comes."""
    monkeypatch.setattr(_process, "_ORPHAN_BOUND", 0.5)
    talk = "import time\\nfor i in range(10): print(i, flush=True); time.sleep(0.1)"
    code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-S', '-c', '{talk}'])"
    async with open_child(python(code)) as child:
        assert [b"%d" % i for i in range(10)] == await all_lines(child)


@pytest.mark.asyncio
async def test_a_child_gets_its_grace() -> None:
    """A child that leaves by itself when its input ends is not signalled."""
    async with open_child(python("import sys; sys.stdin.read(); sys.exit(7)"), grace=5) as child:
        pass
    assert child.exit_status == 7


@pytest.mark.asyncio
async def test_cancellation_ends_the_child_and_loses_no_line() -> None:
    """A cancelled read keeps what came, and a cancelled block leaves nobody behind."""
    with anyio.move_on_after(5) as scope:
        async with open_child(python("import time; print('a', flush=True); time.sleep(60)")) as child:
            pid = child.pid
            assert [(1, b"a")] == await child.lines()
            with anyio.move_on_after(0.05):
                await child.lines()
            scope.cancel()
            await child.lines()
    assert pid is not None
    assert child.exit_status is not None
    assert not alive(pid)


@pytest.mark.asyncio
async def test_a_second_cancellation_does_not_interrupt_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled by asyncio's own means, again and again while it closes, the child is gone all the same."""
    monkeypatch.setattr(_process, "_TERM_BOUND", 0.2)
    pids: list[int] = []
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"

    async def reader() -> None:
        async with open_child(python(code)) as child:
            assert child.pid is not None
            pids.append(child.pid)
            await child.lines()
            up.set()
            await child.lines()

    up = asyncio.Event()
    task = asyncio.create_task(reader())
    await up.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.02)
    assert task.cancelled()
    assert not alive(pids[0])


@pytest.mark.asyncio
async def test_closing_twice_is_once() -> None:
    """The second close finds nothing to do, and a closed child answers its questions."""
    async with open_child(python("print('a')")) as child:
        await child.close()
    await child.close()
    assert child.pid is None
    assert child.stderr == ""
    assert not child.send(b"x")


@pytest.mark.asyncio
async def test_a_program_that_is_not_there_is_a_source_error(tmp_path: Path) -> None:
    """The message names the command."""
    with pytest.raises(SourceError, match="no-such-agent"):
        async with open_child([str(tmp_path / "no-such-agent")]):
            pass
    with pytest.raises(UsageError):
        async with open_child([]):
            pass


@pytest.mark.asyncio
async def test_fifty_megabytes_in_one_line_take_no_quadratic_time() -> None:
    """Doubling a long line about doubles its time, within a factor of four."""

    async def seconds(size: int) -> float:
        code = f"import sys\nsys.stdout.write('x'*{size}+'\\n')"
        start = time.process_time()
        async with open_child(python(code)) as child:
            assert [size] == [len(line) for line in await all_lines(child) if isinstance(line, bytes)]
        return time.process_time() - start

    small, large = await seconds(12_500_000), await seconds(50_000_000)
    assert large < 16 * max(small, 0.01)


@pytest.mark.asyncio
async def test_no_file_descriptor_is_left_open() -> None:
    """Twenty children, one after the other, leave as many descriptors as before."""
    async with open_child(python("")):
        pass
    before = descriptors()
    for _ in range(20):
        async with open_child(python("print(1)")) as child:
            await child.lines()
    await asyncio.sleep(0)
    assert descriptors() <= before
