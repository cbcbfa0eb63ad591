"""How fast are packed DeepSeek Harness logs folded, forward and from their end?

Usage: python -m benchmarks.dsh_logs [--quick] [--all]

Writes logs in the shape of the real ones, one session per file: generation A with its packed rows, generation C with
streams embedded in the messages, as many zstd frames. Each is folded to its outcome. An event is one streamed piece, as
the harness counts them. The backward pass must give the digest of the forward pass for every file.

How many pieces the harness packs together depends on how fast they come: 3 were seen at 10 pieces a second, hundreds in
a replay. The table takes 64; ``--all`` shows the others, and plain files.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks._measure import FULL, QUICK, Effort, Row, cpu, ratio

from lastsay.backends.dsh import events_of, tail_of
from lastsay.fold import RunFold

WORDS = ("the ", "harbour ", "opens ", "at ", "six ", "and ", "ferry ", "leaves ")


def fold_forward(path: Path) -> str:
    """The digest, from the whole log."""
    fold = RunFold()
    for batch in events_of(path):
        for _, events in groupby(batch, type):
            fold.push_run(list(events))
    return fold.outcome().digest


def fold_backward(path: Path) -> str:
    """The digest, from the end of the log."""
    fold = RunFold()
    for event in tail_of(path):
        fold.push(event)
    return fold.outcome().digest


def write_log(path: Path, generation: str, steps: int, pieces: int, run: int) -> int:
    """One session: `steps` steps of `pieces` pieces each, in packed runs of `run`; the number of pieces is returned."""
    version = 0 if generation == "A" else 4
    header = {"type": "session", "version": version, "id": path.stem, "createdAt": 1, "isSeeded": False}
    frames: list[list[dict[str, Any]]] = [[header]]
    seq = 0

    def add(kind: str, data: dict[str, Any]) -> dict[str, Any]:
        nonlocal seq
        seq += 1
        return {"type": kind, "seq": seq - 1, "time": seq, "data": data}

    frames.append([add("turn/start", {"turn": 1})])
    for step in range(1, steps + 1):
        at = {"turn": 1, "step": step}
        rows = [add("step/start", at)]
        texts = [WORDS[i % len(WORDS)] for i in range(pieces)]
        runs = [texts[i : i + run] for i in range(0, pieces, run)]
        packed = [{"index": 0, "dt": [7] * (len(part) - 1), "texts": part} for part in runs]
        message = {"role": "assistant", "content": [{"type": "text", "text": "".join(texts)}], "id": f"m{step}"}
        body = {**at, "message": message, "usage": {"inputTokens": 10, "outputTokens": pieces}}
        if generation == "A":
            for part in packed:
                rows.append({"type": "text-chunks", "seq0": seq, "time0": seq, "data": {**at, **part}})
                seq += len(part["texts"])
        else:
            body["stream"] = [{"type": "text-chunks", "time0": seq, **part} for part in packed]
        rows += [add("assistant/message", body), add("step/end", at)]
        frames.append(rows)
    frames.append([add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})])
    lines = [b"".join(json.dumps(r, separators=(",", ":")).encode() + b"\n" for r in rows) for rows in frames]
    import zstandard

    compress = zstandard.ZstdCompressor().compress
    path.write_bytes(b"".join(compress(part) for part in lines) if path.suffix == ".zstd" else b"".join(lines))
    return steps * pieces


def files_of(folder: Path, generation: str, run: int, suffix: str, events: int) -> tuple[list[Path], int]:
    """Sessions of 20 steps of 1,000 pieces, and how many pieces they have together."""
    files = [folder / f"s{i}{suffix}" for i in range(max(1, events // 20_000))]
    return files, sum(write_log(path, generation, 20, 1_000, run) for path in files)


def measured(generation: str, run: int, suffix: str, effort: Effort) -> tuple[float, float, list[float]]:
    """(events per second of CPU in millions, how many times cheaper backward is, that per round)."""
    with tempfile.TemporaryDirectory() as folder:
        files, events = files_of(Path(folder), generation, run, suffix, max(effort.events, 20_000) * 4)
        digests: dict[str, list[str]] = {}

        def all_by(name: str, fold: Callable[[Path], str]) -> Callable[[], None]:
            def work() -> None:
                digests[name] = [fold(path) for path in files]

            return work

        forward, backward = all_by("forward", fold_forward), all_by("backward", fold_backward)
        median, _, _, ratios = ratio(backward, forward, effort.rounds)
        assert digests["forward"] == digests["backward"]
        return events / min(cpu(forward) for _ in range(effort.rounds)) / 1e6, 1 / median, [1 / r for r in ratios]


def rows(effort: Effort) -> list[Row]:
    """The rows of the table: both generations, forward and backward."""
    out = []
    for generation in ("A", "C"):
        rate, gain, rounds = measured(generation, 64, ".zstd", effort)
        name = f"dsh log, generation {generation}"
        out.append(Row(f"{name}, forward", "events per second", 3, "at least", "M/s", measured=rate))
        out.append(Row(f"{name}, from its end", "our own forward pass", 4, "at least", measured=gain, rounds=rounds))
    return out


def main() -> None:
    """Print the rows, or everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    if not options.all:
        for row in rows(effort):
            print(f"{row.status}: {row.name}: {row.measured:.2f} {row.unit}, goal {row.goal:g} {row.unit}")
        return
    print(f"{'generation':12}{'run':>6}{'file':>8}{'forward M events/s':>20}{'backward x forward':>20}")
    for generation in ("A", "C"):
        for run in (3, 16, 64, 256):
            for suffix in (".jsonl", ".zstd"):
                rate, gain, _ = measured(generation, run, suffix, effort)
                print(f"{generation:12}{run:>6}{suffix:>8}{rate:>20.2f}{gain:>20.1f}", flush=True)


if __name__ == "__main__":
    main()
