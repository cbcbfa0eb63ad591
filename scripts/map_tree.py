"""Write the map of the tree into CONTRIBUTING.md: every folder and module, with the first sentence of its docstring.

Usage: python scripts/map_tree.py [--check]
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- map: scripts/map_tree.py writes this -->", "<!-- end of map -->"
FOLDERS = {
    "tests/unit": "mirrors src",
    "tests/typing": "how the public names type; read by the checkers, never run",
    "tests/properties": "hypothesis: what must hold for every input",
    "tests/conformance": "the checks that every operator and backend must pass",
    "tests/cases": "failures reported in public, replayed",
    "tests/cancel": "every way a stream can be left",
    "tests/live": "real harnesses on loopback",
    "tests/fixtures": "recorded by the scripts, from real runs",
    "benchmarks": "ratios against peers and hand-written loops, in one process",
    "docs": "one page per subject; zh/ is Chinese",
    "examples": "small programs that are run by the tests",
    "scripts": "recorders, installers of side environments, this map",
    "changelog.d": "one fragment per change",
}


def sentence(module: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return re.split(r"(?<=\.)\s|:?\n\n", text, maxsplit=1)[0].replace("\n", " ").rstrip(".:")


def lines() -> list[str]:
    """The map, line by line."""
    out: list[str] = []
    package = ROOT / "src" / "lastsay"
    for path in sorted(package.rglob("*.py"), key=lambda p: (p.parent, p.name)):
        inside = path.relative_to(ROOT)
        depth = len(inside.parts) - 2
        if path.name == "__init__.py":
            out.append(f"{'  ' * (depth - 1)}{path.parent.name}/  {sentence(path)}")
        elif path.name != "__main__.py":
            out.append(f"{'  ' * depth}{path.name}  {sentence(path)}")
    return out + [f"{folder}/  {what}" for folder, what in FOLDERS.items()]


def page() -> str:
    """CONTRIBUTING.md with the map as it should be."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    body = "\n".join(lines())
    return f"{before}{BEGIN}\n\n```text\n{body}\n```\n\n{END}{after}"


if __name__ == "__main__":
    wanted = page()
    if "--check" in sys.argv:
        raise SystemExit(0 if wanted == PAGE.read_text("utf-8") else "the map is old: python scripts/map_tree.py")
    PAGE.write_text(wanted, "utf-8")
