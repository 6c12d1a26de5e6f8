"""No test sleeps to wait, or is made of the time at which tests are collected.

It polls with a deadline, paces a load, or runs in virtual time, each by its own name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

_SLEEP = {"asyncio.sleep", "time.sleep", "sleep"}
_NOW = ("datetime.now(", "time.time(", "time.monotonic(")
_MAY_SLEEP = {"tests/support/waiting.py", "tests/support/virtual_time.py"}
_VIRTUAL = "tests/system/simulation/"
"""Everything in it runs on the scheduler's time."""


def sleeps(path: Path) -> Iterator[str]:
    """The calls that let time pass; ``sleep(0)`` lets another task run and nothing else."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _SLEEP and ast.unparse(node.args[0]) != "0":
            yield f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"


def test_a_sleep_has_a_name_that_says_why() -> None:
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "tests").rglob("*.py")}
    others = [path for name, path in files.items() if name not in _MAY_SLEEP and not name.startswith(_VIRTUAL)]
    assert [sleep for path in others for sleep in sleeps(path)] == []
    assert all(list(sleeps(files[name])) for name in _MAY_SLEEP)


def dated(path: Path) -> Iterator[str]:
    """Cases made of the time at which the tests were collected, which may be an hour before they run."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for case in getattr(node, "decorator_list", ()):
            if any(now in ast.unparse(case) for now in _NOW):
                yield f"{path.relative_to(ROOT)}:{case.lineno}"


def test_no_case_is_made_of_the_time_of_collection() -> None:
    assert [case for path in (ROOT / "tests").rglob("*.py") for case in dated(path)] == []
