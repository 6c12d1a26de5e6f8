"""Every test that the pages on promises and on trust name exists, under that name."""

from __future__ import annotations

import ast
import re

from tests.support.paths import ROOT


def named() -> list[tuple[str, str]]:
    """Path and function of each."""
    text = (ROOT / "docs/design/guarantees.md").read_text(encoding="utf-8")
    return re.findall(r"`(tests/\S+\.py)::(\w+)`", text)


def functions(path: str) -> set[str]:
    """The test functions of a file; none if it is not there."""
    file = ROOT / path
    body = ast.parse(file.read_text(encoding="utf-8")).body if file.is_file() else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_named_test_exists() -> None:
    assert [f"{path}::{name}" for path, name in named() if name not in functions(path)] == []


def test_every_promise_names_a_test() -> None:
    text = (ROOT / "docs/design/guarantees.md").read_text(encoding="utf-8")
    promises = re.split(r"\n(?=\*\*)", text)[1:]

    assert len(promises) >= 10
    assert [promise.splitlines()[0] for promise in promises if "`tests/" not in promise] == []


def test_each_row_of_the_page_on_trust_names_a_test_of_what_prevents_more() -> None:
    text = (ROOT / "docs/operate/trust.md").read_text(encoding="utf-8")
    lines = [line for line in re.findall(r"(?m)^\|.*\|$", text) if line.count("|") == 5]
    _, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    named = {what: re.findall(r"`(tests/\S+\.py)`", test) for _, what, prevents, test in rows if prevents != "nothing"}
    assert len(named) >= 15
    assert [what for what, paths in named.items() if not paths] == []
    assert [path for paths in named.values() for path in paths if not (ROOT / path).is_file()] == []
