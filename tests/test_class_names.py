"""A class name stands for one thing: no public class of the product has the name of another one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.support.paths import ROOT

_FOLDERS = ("relay", "cli", "client")
# Public in openoutbox, an application's namespace, and in the relay's; Django names each migration so.
_ALLOWED = {"NewEvent", "Outbox", "OutboxEvent", "Migration"}


def public_classes(path: Path) -> list[str]:
    """The names of the classes that a module defines at its top level, without those that begin with ``_``."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def definitions() -> dict[str, list[str]]:
    """The modules that define a public class, by its name."""
    modules = defaultdict(list)
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in public_classes(path):
                modules[name].append(str(path.relative_to(ROOT)))
    return modules


def test_no_public_class_name_is_defined_twice() -> None:
    twice = {name: modules for name, modules in definitions().items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if name not in _ALLOWED} == {}
    assert set(twice) == _ALLOWED, "an allowed name is no longer defined twice; take it off the list"
