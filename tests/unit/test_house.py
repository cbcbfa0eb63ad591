"""The layout and the budgets that the contributing page promises."""

import ast
import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lastsay

ROOT = Path(lastsay.__file__).resolve().parent.parent.parent
MODULES = sorted((ROOT / "src").rglob("*.py"))
FUNCTION_LINES = 25


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, methods and nested ones too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def own_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    doc = node.body[0] if ast.get_docstring(node) else None
    return (node.end_lineno or 0) - node.lineno + 1 - ((doc.end_lineno or 0) - doc.lineno + 1 if doc else 0)


def test_modules_are_short() -> None:
    """No module has over 500 lines."""
    assert {} == {p.name: n for p in MODULES if (n := len(p.read_text("utf-8").splitlines())) > 500}


def test_nine_functions_of_ten_are_short() -> None:
    """90 % of the functions have at most 25 lines, docstrings not counted."""
    sizes = sorted(own_lines(node) for path in MODULES for node in functions(path))
    assert FUNCTION_LINES >= sizes[int(len(sizes) * 0.9)]


def name_of(path: Path) -> str:
    """The import name of a source file."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, names: set[str]) -> set[str]:
    """What a module imports of the package, wherever in the file, for typing or not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= parts if parts <= names else parts | {node.module}
    return {name for name in found if name in names}


def test_there_are_no_import_cycles() -> None:
    """Not even typing-only ones, and not within a package: a module never reaches itself."""
    names = {name_of(path) for path in MODULES}
    graph = {name_of(path): imports_of(path, names) - {name_of(path)} for path in MODULES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above[above.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_every_public_name_exists() -> None:
    """`__all__` is a sorted tuple in every public module, and all of it can be imported."""
    for info in pkgutil.walk_packages(lastsay.__path__, "lastsay."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        names = getattr(module, "__all__", ())
        assert isinstance(names, tuple), info.name
        assert [] == [name for name in names if not hasattr(module, name)], info.name
    assert tuple(sorted(lastsay.__all__)) == lastsay.__all__


def test_the_map_is_the_disk() -> None:
    """The tree in CONTRIBUTING.md names every module; scripts/map_tree.py writes it."""
    script = ROOT / "scripts" / "map_tree.py"
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert "" == result.stderr


def test_importing_is_light() -> None:
    """`import lastsay` loads no harness SDK, no exporter and no terminal library."""
    heavy = (
        "claude_agent_sdk",
        "acp",
        "mcp",
        "click",
        "rich",
        "opentelemetry.sdk",
        "zstandard",
        "hypothesis",
        "aiostream",
    )
    program = f"import lastsay, sys; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[]" == result.stdout.strip()
