"""The drawing of the error tree in ``relay.core.errors`` is the classes of the source, each under its parent."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from relay.core import errors
from tests.support.paths import ROOT

BUILT_IN = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}
LINE = re.compile(r"(?P<indent>[│ ]*)[├└]── (?P<names>\w+(?:, \w+)*)(?P<text>.*)")
MODULE = re.compile(r"\((relay[\w.]+)\)")


class Error(NamedTuple):
    """An exception class: its parent, and the module that defines it."""

    parent: str
    module: str


def classes(folder: Path, package: str) -> Iterator[tuple[str, list[str], str]]:
    for path in sorted(folder.rglob("*.py")):
        module = ".".join((package, *path.relative_to(folder).with_suffix("").parts))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name, [ast.unparse(base).rpartition(".")[2] for base in node.bases], module


def defined() -> dict[str, Error]:
    """Every exception class of the product; private ones stay in their module."""
    rest = [*classes(ROOT / "relay", "relay"), *classes(ROOT / "client/openoutbox", "openoutbox")]
    errors: dict[str, Error] = {}
    while more := [one for one in rest if any(base in errors or base in BUILT_IN for base in one[1])]:
        for name, bases, module in more:
            parent = next((base for base in bases if base in errors), bases[0])
            errors[name] = Error(parent, module)
        rest = [one for one in rest if one not in more]
    return {name: error for name, error in errors.items() if not name.startswith("_")}


def drawn() -> dict[str, Error]:
    tree: dict[str, Error] = {"OutboxError": Error("Exception", "")}
    path = ["OutboxError"]
    modules = [""]
    for line in (errors.__doc__ or "").splitlines():
        match = LINE.search(line)
        if match is None:
            continue
        depth = len(match["indent"].removeprefix("    ")) // 4 + 1
        del path[depth:], modules[depth:]
        module = MODULE.search(match["text"])
        modules.append(module[1] if module is not None else modules[-1])
        names = match["names"].split(", ")
        path.append(names[-1])
        tree |= {name: Error(path[depth - 1], modules[-1]) for name in names}
    return tree


def test_the_drawing_names_every_class_under_its_parent() -> None:
    parents = {name: error.parent for name, error in defined().items()}
    assert {name: error.parent for name, error in drawn().items()} == parents


def test_a_module_in_the_drawing_is_where_the_class_is() -> None:
    modules = {name: error.module for name, error in defined().items()}
    named = {name: error.module for name, error in drawn().items() if error.module}
    assert named == {name: modules[name] for name in named}
    assert len(named) > 20
