"""Prints the table of goals and writes it as JSON to benchmarks/results/.

    python -m benchmarks [--quick] [--only WORD]

The exit status is 1 if a goal is missed. A peer that is not installed is reported as absent; `make_venv.sh` in this
folder makes an environment that has them all.
"""

import argparse
import importlib
import json
import platform
import sys
import time
from importlib import metadata
from pathlib import Path

from benchmarks._measure import FULL, QUICK, Row, pin

MODULES = (
    "pipelines",
    "broadcasts",
    "folds",
    "accumulators",
    "bytes_in",
    "growth",
    "memory",
    "telemetry",
    "dsh_logs",
    "acp_updates",
)
PEERS = (
    "aiostream",
    "anthropic",
    "pydantic-ai-slim",
    "openai",
    "litellm",
    "anyio",
    "msgspec",
    "pydantic",
    "agent-client-protocol",
)
RESULTS = Path(__file__).parent / "results"


def versions() -> dict[str, str]:
    """The versions of what was measured against."""
    out = {}
    for name in PEERS:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = "absent"
    return out


def line(row: Row) -> str:
    """One row, for people."""
    measured = "-" if row.measured is None else f"{row.measured:,.2f}{row.unit}"
    goal = f"{row.direction} {row.goal:g}{row.unit}"
    return f"{row.status:7} {row.name:34} {row.against:38} {measured:>12}  {goal:16} {row.note}"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller and fewer rounds: under a minute")
    parser.add_argument("--slack", type=float, default=1.0, help="fail only over this many times a goal (CI: 2)")
    parser.add_argument("--only", default="", help="only modules whose name holds this word")
    options = parser.parse_args(arguments)
    core = pin()
    began = time.monotonic()
    rows: list[Row] = []
    print(f"{'':7} {'what':34} {'against':38} {'measured':>12}  goal")
    for name in MODULES:
        if options.only in name:
            for row in importlib.import_module(f"benchmarks.{name}").rows(QUICK if options.quick else FULL):
                rows.append(row)
                print(line(row), flush=True)
    report = {
        "quick": options.quick,
        "python": sys.version,
        "machine": platform.platform(),
        "core": core,
        "seconds": round(time.monotonic() - began, 1),
        "versions": versions(),
        "rows": [{**vars(row), "status": row.status} for row in rows],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / ("quick.json" if options.quick else "full.json")
    if not options.only:
        path.write_text(json.dumps(report, indent=1) + "\n")
    missed = [row for row in rows if row.status == "missed"]
    absent = sum(row.status == "absent" for row in rows)
    print(f"{len(rows)} rows, {len(missed)} missed, {absent} absent, {report['seconds']} s")
    return 1 if any(row.share > options.slack for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
