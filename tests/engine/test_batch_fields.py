"""``Batch`` owns its transitions: no other module of the engine writes a field of a batch, or what a field holds.

``Portion`` is frozen, which mypy holds; a batch is not, so this reads the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import relay.engine.batch
from relay.core.event import Fence
from relay.core.storage import Settlement
from relay.engine.batch import Batch, Portion
from relay.engine.fences import Lease
from tests.support.paths import ROOT

BATCH = Batch(Lease.of(Fence(datetime(2030, 1, 1, tzinfo=UTC)), 0.0, 30.0), [], 0.0)
FIELDS = {*vars(BATCH), *Portion.__dataclass_fields__, *Settlement.__dataclass_fields__}
CHANGING = {
    "append",
    "clear",
    "difference_update",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "update",
}
OTHER_MODULES = sorted(
    path for path in (ROOT / "relay/engine").glob("*.py") if str(path) != relay.engine.batch.__file__
)


def writes(source: str) -> Iterator[str]:
    """Each place that writes a field of another object under a name of ``FIELDS``; ``self``'s own are its own."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                field = node.value if isinstance(node, ast.Subscript) else node
            case ast.Call(func=ast.Attribute(value=field, attr=attr)) if attr in CHANGING:
                pass
            case _:
                continue
        if _is_foreign(field):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def _is_foreign(node: ast.expr) -> bool:
    """Whether the node is ``x.field``, or ``x.field.more``, where ``x`` is not ``self``."""
    while isinstance(node, ast.Attribute):
        if node.attr in FIELDS and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return True
        node = node.value
    return False


@pytest.mark.parametrize("path", OTHER_MODULES, ids=lambda path: path.name)
def test_no_other_module_writes_a_field_of_a_batch(path: Path) -> None:
    assert list(writes(path.read_text())) == []


@pytest.mark.parametrize(
    "line",
    [
        "batch.writing = True",
        "portion.settlement.released = []",
        "portion.refusals += 1",
        "self._batch.offered[event_id] = event",
        "del batch.offered[event_id]",
        "batch.verdicts.released.append(event_id)",
        "batch.followers, rest = [], batch.followers",
    ],
)
def test_a_write_is_noticed(line: str) -> None:
    assert len(list(writes(line))) == 1


def test_reading_and_transitions_are_not_writes() -> None:
    assert not list(writes("self.offered = batch.offered\nbatch.renewed(lease, event_ids)\nheld = batch.held_ids()"))
