"""No function is longer than 40 lines and no file longer than 400: what does not fit has a part with a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

_FOLDERS = ("relay", "cli", "client", "tests", "benchmarks", "examples", "deploy")
_LONGEST_FUNCTION = 40  # lines, from ``def`` on, docstring included
_LONGEST_FILE = 400  # lines


def sources() -> list[Path]:
    """Every Python file of the project; the virtual environment and caches lie in none of the folders."""
    return [*ROOT.glob("*.py"), *(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py"))]


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > _LONGEST_FUNCTION:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines"


def test_the_project_is_looked_through() -> None:
    assert {ROOT / "relay/__main__.py", ROOT / "tests/test_size.py", ROOT / "cli/relay_cli/main.py"} <= set(sources())


def test_no_function_is_longer_than_40_lines() -> None:
    assert [function for path in sources() for function in long_functions(path)] == []


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert {path: lines for path, lines in lengths.items() if lines > _LONGEST_FILE} == {}
