"""How fast are packed DeepSeek Harness logs folded, forward and from their end?

Usage: python benchmarks/dsh_logs.py [--events N] [--repeat R]

Writes logs in the shape of the real ones (generation A: packed rows; B and C: streams embedded in the message), one
session per file, and folds each to its outcome. An event is one streamed piece, as the harness counts them. The forward
pass and the backward pass must agree on the digest of every file.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import zstandard

from lastsay.backends.dsh import events_of, tail_of
from lastsay.fold import RunFold

WORDS = ("the ", "harbour ", "opens ", "at ", "six ", "and ", "ferry ", "leaves ")


def fold_forward(path: Path) -> str:
    fold = RunFold()
    for batch in events_of(path):
        start = 0
        while start < len(batch):
            kind = type(batch[start])
            end = start + 1
            while end < len(batch) and type(batch[end]) is kind:
                end += 1
            fold.push_run(batch[start:end])
            start = end
    return fold.outcome().digest


def fold_backward(path: Path) -> str:
    fold = RunFold()
    for event in tail_of(path):
        fold.push(event)
    return fold.outcome().digest


def write_log(path: Path, generation: str, steps: int, pieces: int, run: int) -> int:
    """One session: `steps` steps of `pieces` pieces each, in packed runs of `run`; the number of pieces is returned."""
    frames: list[list[dict]] = [[{"type": "session", "version": 0 if generation == "A" else 4, "id": path.stem,
                                  "createdAt": 1, "cwd": "/x", "isSeeded": False, "delegationDepth": 1}]]  # fmt: skip
    seq = 0

    def add(kind: str, data: dict) -> dict:
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
    compress = zstandard.ZstdCompressor().compress
    path.write_bytes(b"".join(compress(part) for part in lines) if path.suffix == ".zstd" else b"".join(lines))
    return steps * pieces


def best(repeat: int, work: Callable[[], None]) -> float:
    times = []
    for _ in range(repeat):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{'generation':12}{'run':>6}{'file':>7}{'MB':>7}{'forward M events/s':>20}{'backward x forward':>20}")
    for generation in ("A", "C"):
        for run in (16, 64, 256):
            for suffix in (".jsonl", ".zstd"):
                with tempfile.TemporaryDirectory() as folder:
                    report(Path(folder), generation, run, suffix, options)


def report(folder: Path, generation: str, run: int, suffix: str, options: argparse.Namespace) -> None:
    steps, pieces = 20, 1_000
    files = [folder / f"s{i}{suffix}" for i in range(max(1, options.events // (steps * pieces)))]
    events = sum(write_log(path, generation, steps, pieces, run) for path in files)
    size = sum(path.stat().st_size for path in files) / 1e6
    digests: dict[str, list[str]] = {}

    def all_of(name: str, fold: Callable[[Path], str]) -> float:
        def work() -> None:
            digests[name] = [fold(path) for path in files]

        return best(options.repeat, work)

    forward, backward = all_of("forward", fold_forward), all_of("backward", fold_backward)
    assert digests["forward"] == digests["backward"]
    rate, ratio = events / forward / 1e6, forward / backward
    print(f"{generation:12}{run:>6}{suffix[1:]:>7}{size:>7.1f}{rate:>20.2f}{ratio:>20.1f}", flush=True)


if __name__ == "__main__":
    main()
