"""How a table that exists differs from the contract's, in words an operator can act on. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from relay.core.event import Status
from relay.outbox.schema import CHECK_NAME, COLUMNS, INDEXES, Column

_LITERAL: Final = re.compile(r"'([^']*)'")
_STORAGE_OPTIONS: Final = re.compile(r" WITH \([^)]*\)")
_NOW_SPELLINGS: Final = frozenset({"CURRENT_TIMESTAMP", "transaction_timestamp()"})
_ANY_DEFAULT: Final = frozenset({"event_id"})  # a database that makes the id itself does no harm


class FoundColumn(NamedTuple):
    """A row of ``columns`` in ``sql/outbox/migrate.sql``."""

    name: str
    type: str
    required: bool
    default: str | None
    filled: bool


class FoundConstraint(NamedTuple):
    """A row of ``constraints`` in ``sql/outbox/migrate.sql``."""

    kind: str
    name: str
    definition: str


class FoundIndex(NamedTuple):
    """A row of ``indexes`` in ``sql/outbox/migrate.sql``."""

    name: str
    ours: bool
    definition: str
    valid: bool


def column_differences(columns: Sequence[FoundColumn]) -> list[str]:
    """One sentence for each column that is missing, differs, or would make a plain INSERT fail."""
    by_name = {column.name: column for column in columns}
    faults = []
    for expected in COLUMNS:
        column = by_name.pop(expected.name, None)
        if column is None:
            faults.append(f"column {expected.name} is missing: it must be {expected}")
        elif (actual := _as_column(column, expected)) != expected:
            faults.append(f"column {expected.name} is {actual}: it must be {expected}")
    faults += [
        f"column {extra.name} is not the contract's, and an INSERT that does not know it fails: give it a DEFAULT, "
        "or drop its NOT NULL"
        for extra in by_name.values()
        if extra.required and extra.default is None and not extra.filled
    ]
    return faults


def _as_column(column: FoundColumn, expected: Column) -> Column:
    default = "now()" if column.default in _NOW_SPELLINGS else column.default
    if column.name in _ANY_DEFAULT:
        default = expected.default
    return Column(column.name, column.type, column.required, default)


def constraint_differences(constraints: Sequence[FoundConstraint]) -> list[str]:
    """One sentence each for the primary key and the check of the status, where they are not the contract's."""
    faults = []
    keys = [one.definition for one in constraints if one.kind == "p"]
    if keys != ["PRIMARY KEY (event_id)"]:
        faults.append(f"the primary key is {keys[0] if keys else 'missing'}: it must be PRIMARY KEY (event_id)")
    allowed = [
        set(_LITERAL.findall(one.definition)) for one in constraints if one.name == CHECK_NAME and one.kind == "c"
    ]
    if allowed != [set(Status)]:
        faults.append(
            f"constraint {CHECK_NAME} is {'another one' if allowed else 'missing'}: it must be "
            "CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD'))"
        )
    return faults


def index_differences(indexes: Sequence[FoundIndex], names: dict[str, str]) -> list[str]:
    """One sentence for each wanted index name that another object has, or whose index does not help."""
    by_name = {index.name: index for index in indexes}
    faults = []
    for role, name in names.items():
        index = by_name.get(name)
        if index is None:
            continue
        if not index.ours:
            faults.append(f"the name {name} is taken by another relation of this schema: rename that one")
        elif _core(index.definition) != INDEXES[role]:
            faults.append(
                f"index {name} is {_core(index.definition)}: it must be {INDEXES[role]}; drop it and run again"
            )
        elif not index.valid:
            faults.append(
                f"index {name} is invalid, because its CREATE INDEX CONCURRENTLY is under way or has failed: wait for "
                "it, or drop it and run again"
            )
    return faults


def missing_indexes(indexes: Sequence[FoundIndex]) -> frozenset[str]:
    """The roles that no valid index of the table fills, whatever its name: a second equal one only costs writes."""
    definitions = {_core(index.definition) for index in indexes if index.ours and index.valid}
    return frozenset(role for role, definition in INDEXES.items() if definition not in definitions)


def _core(definition: str) -> str:
    """What the index is, without its own name, the table's, and storage options."""
    using = definition.find(" USING ")
    return _STORAGE_OPTIONS.sub("", definition[using + 1 :])
