"""Record what the real Claude CLI makes of submitted function results: the oracle of tests/unit/receipts.

Usage: python scripts/loopback_only.py python scripts/record_receipts.py [--cli PATH] [--output FOLDER]

The cases are generated (the same ones every time), the model is scripted and on loopback, and the CLI is the one that
claude-agent-sdk brings, or that of ``--cli``. One NDJSON file per CLI version is written. Long texts are stored as what
they are made of (submitted) or as their hash (native), so that the file stays small and holds none of the CLI's own.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import random
import struct
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeSDKClient
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from lastsay.backends.claude import Function, FunctionServer
from lastsay.operators import FunctionBridge
from lastsay.testing import claude_offline_options
from lastsay.testing.model_server import CallTool, Say, Scenario, marker, model_server

SHOWN = 300
"""Characters up to which a native text is stored as it is."""

ATOMS = (
    "", " ", "\t", "\n", "\r\n", "\v\f", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000", "\ufeff",
    "\u0085", "\u180e", "\u200b", "\u2060", "\x00", "\x1c", "\x1f", "\x7f", "x", "ok", "a b", "é", "e\u0301", "漢字",
    "😀", "👩‍💻", "\u202e", "\ue000", "\x1b[31m", "<tag>", "{}", "[]", "\\", '"', "null", "0", "Error: x", "-",
)  # fmt: skip

MATRIX = (
    [], [""], [" "], ["\t\n "], ["\ufeff"], ["\u0085"], ["\x1c"], ["\u200b"], ["\x00"], ["", ""], [" ", "\n"],
    [" padded "], ["\n\nlines\n\n"], ["\ufeffbom\ufeff"], ["\u0085nel\u0085"], ["x", "", "y"], ["x", ""], ["", "x"],
    [" ", "x", " "], ["one", "two"], ["a\r\nb\r\n"], ["[Image: source: /tmp/none.png]"], ["<persisted-output>"],
    ["Unknown error"], ["Command failed with no output"], ["User rejected tool use"],
)  # fmt: skip

SIZES: tuple[tuple[str, tuple[list[list[Any]], ...]], ...] = (
    ("11024", ([["e", 11_024]],)),
    ("11025", ([["e", 11_025]],)),
    ("11024-astral", ([["😀", 5_512]],)),
    ("11026-astral", ([["😀", 5_513]],)),
    ("pair-at-head", ([["h", 4_999], ["😀", 1], ["t", 7_000]],)),
    ("pair-at-tail", ([["h", 7_000], ["😀", 1], ["t", 4_999]],)),
    ("pairs-at-both", ([["h", 4_999], ["😀", 1], ["m", 2_000], ["😀", 1], ["t", 4_999]],)),
    ("padded-11025", ([[" ", 10], ["e", 11_020], [" ", 10]],)),
    ("blank-at-cut", ([["h", 4_990], [" ", 3_000], ["t", 4_990]],)),
    ("joined-11025", ([["a", 5_512]], [["b", 5_512]])),
    ("joined-11026", ([["a", 5_512]], [["b", 5_513]])),
    ("12000", ([["e", 12_000]],)),
    ("50000", ([["s", 50_000]],)),
    ("50001", ([["s", 50_001]],)),
    ("60000-lines", ([["s\n", 30_000]],)),
    ("60000-two", ([["s", 40_000]], [["é", 20_000]])),
    ("25001-astral", ([["😀", 25_001]],)),
    ("120000", ([["s", 120_000]],)),
    ("120000-lines", ([["s\n", 60_000]],)),
    ("120000-two", ([["s", 100_000]], [["é", 20_000]])),
    ("120000-blank", ([[" ", 120_000]],)),
)

DECLARED: tuple[tuple[str, tuple[list[list[Any]], ...]], ...] = (
    ("declared-120000", ([["d", 120_000]],)),
    ("declared-500000", ([["d", 500_000]],)),
    ("declared-500000-accents", ([["é", 500_000]],)),
    ("declared-500001", ([["d", 500_001]],)),
    ("declared-600000-two", ([["d", 300_000]], [["é", 300_000]])),
    ("declared-blank", ([[" ", 120_000]],)),
)


def png(width: int, height: int) -> str:
    """A PNG of one colour, as base64."""
    rows = [bytes([200, 30, 30]) * width] * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))), (b"IEND", b""))
    body = b"".join(struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in chunks)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def text_of(part: str | list[list[Any]]) -> str:
    """The text of a stored part: itself, or repeated pieces."""
    return part if isinstance(part, str) else "".join(piece * count for piece, count in part)


def cases() -> Iterator[dict[str, Any]]:
    """Every case: its id, the function it calls, and what is submitted."""
    number = 0
    for success in (True, False):
        for parts in MATRIX:
            yield {"case": f"matrix-{number}", "function": "plain", "success": success, "parts": list(parts)}
            number += 1
    rng = random.Random(20261130)
    for index in range(240):
        parts = ["".join(rng.choices(ATOMS, k=rng.choice((0, 1, 1, 2, 3, 6)))) for _ in range(rng.choice((1, 1, 2, 3)))]
        yield {"case": f"fuzz-{index}", "function": "plain", "success": rng.random() < 0.4, "parts": parts}
    for name, sized in SIZES:
        for success in (True, False):
            yield {"case": f"size-{name}-{success}", "function": "plain", "success": success, "parts": list(sized)}
    for name, sized in DECLARED:
        yield {"case": name, "function": "declared", "success": True, "parts": list(sized)}
    small, wide = {"image": png(2, 2)}, {"image": png(2_400, 8)}
    images: tuple[list[Any], ...] = (
        [small], ["before", small, "after"], [small, small], [small, " ", small], [wide], ["x", wide, "y", small],
        [small, "[Image: source: /tmp/none.png]"],
    )  # fmt: skip
    for index, mixed in enumerate(images):
        yield {"case": f"image-{index}", "function": "plain", "success": True, "parts": mixed}


def result_of(case: dict[str, Any]) -> dict[str, Any]:
    """The function result that a case submits."""
    output = [
        {"type": "input_image", "image_url": f"data:image/png;base64,{p['image']}"}
        if isinstance(p, dict)
        else {"type": "input_text", "text": text_of(p)}
        for p in case["parts"]
    ]
    return {"success": case["success"], "output": output}


def shortened(value: Any) -> Any:
    """The value with every long text replaced by its hash, its length and its beginning."""
    if isinstance(value, str) and len(value) > SHOWN:
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return {"sha256": digest, "length": len(value), "head": value[:SHOWN]}
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    return value


class Tee(SubprocessCLITransport):
    """The SDK's transport, with every record kept as it came."""

    records: list[dict[str, Any]]

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """The records, each kept first."""
        async for record in super().read_messages():
            self.records.append(record)
            yield record


async def run(batch: list[dict[str, Any]], cli: str | None, home: Path) -> list[dict[str, Any]]:
    """The records of one session in which the model calls a function once per case."""
    by_id = {case["case"]: case for case in batch}

    async def answer(arguments: Any) -> dict[str, Any]:
        return result_of(by_id[arguments["case"]])

    functions = [
        Function(name="plain", handler=answer, result_characters=None),
        Function(name="declared", handler=answer),
    ]
    server = FunctionServer(FunctionBridge(), functions)
    calls = [(CallTool(server.tool(c["function"]), {"case": c["case"]}, id=f"toolu_{c['case']}"),) for c in batch]
    scenario = Scenario("record", "one call per case", (*calls, (Say("done"),)))
    async with model_server(scenarios=[scenario]) as model:
        options = server.configure(claude_offline_options(model.url, home, cli_path=cli))
        options.max_buffer_size = 64 * 1024 * 1024
        transport = Tee(prompt="", options=options)
        transport.records = []
        client = ClaudeSDKClient(options, transport=transport)
        async with client:
            await client.query(f"Go. {marker('record')}")
            async for _ in client.receive_response():
                pass
    return transport.records


def files_of(content: Any, home: Path) -> list[dict[str, Any]]:
    """The files named in a native content, each with its hash."""
    texts = [content] if isinstance(content, str) else [b.get("text", "") for b in content if isinstance(b, dict)]
    found = []
    for file in sorted((home / "config").glob("projects/*/*/tool-results/*")):
        if any(str(file) in text for text in texts):
            data = file.read_bytes()
            found.append({"name": file.name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)})
    return found


def native_of(records: list[dict[str, Any]], batch: list[dict[str, Any]], home: Path) -> Iterator[dict[str, Any]]:
    """Each case with what the CLI recorded for it."""
    known = {f"toolu_{case['case']}": case for case in batch}
    for record in records:
        content = record.get("message", {}).get("content") if record.get("type") == "user" else None
        for block in content if isinstance(content, list) else []:
            case = known.get(block.get("tool_use_id")) if block.get("type") == "tool_result" else None
            if case is None:
                continue
            native = block.get("content")
            text = json.dumps({"content": native, "record": record.get("tool_use_result")})
            moved = json.loads(text.replace(json.dumps(str(home))[1:-1], "/home"))
            yield {
                **case,
                "is_error": block.get("is_error"),
                "session": record["session_id"],
                "content": shortened(moved["content"]),
                "record": shortened(moved["record"]),
                "files": files_of(native, home),
            }


def main() -> None:
    """Record, and say how many cases there were."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cli", help="path of another CLI")
    parser.add_argument("--output", type=Path, default=Path("tests/fixtures/receipts"))
    options = parser.parse_args()
    everything = list(cases())
    small = [c for c in everything if c["case"].startswith(("matrix", "fuzz", "image"))]
    large = [c for c in everything if c not in small]
    lines: list[dict[str, Any]] = []
    version = "unknown"
    sized = [c for c in large if c["function"] == "plain"]
    # Few in one session, or one alone: 2.1.269 takes them for a full context and compacts it away.
    alone = [[c] for c in large if c["function"] == "declared"]
    for batch in (small, sized[:20], sized[20:32], sized[32:], *alone):
        with tempfile.TemporaryDirectory(prefix="receipts-") as folder:
            home = Path(folder)
            records = asyncio.run(run(batch, options.cli, home))
            version = next(r["claude_code_version"] for r in records if "claude_code_version" in r)
            lines += native_of(records, batch, home)
    path = options.output / f"claude-{version}.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    missing = {c["case"] for c in everything} - {line["case"] for line in lines}
    print(f"{path}: {len(lines)} of {len(everything)} cases, {path.stat().st_size} bytes; missing: {sorted(missing)}")


if __name__ == "__main__":
    main()
