"""The statements of reading: ``sql/spark/read.sql`` with names of a table and of its columns.

Values are bound by the client: COPY takes no parameters on the server's side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, LiteralString

from relay.postgres.sql import Name, TableName, statement, variant

_COLUMNS: Final = "chosen_columns"
_ROWS: Final = "SELECT chosen_rows"
_ATTEMPTS: Final = "openoutbox_log.attempts"
_PARAMETER: Final = re.compile(r"%\(([a-z_0-9]+)\)s")


def read_statement(
    name: str, table: TableName | None = None, columns: Sequence[str] = (), *, sample: bool = False
) -> LiteralString:
    """A statement of ``sql/spark/read.sql`` for a table and some of its columns; ``sample`` selects that variant."""
    names: dict[str, Name] = {_COLUMNS: tuple(columns)}
    if table is not None:
        names[_ATTEMPTS] = table
    return statement(f"spark/read:{name}", table, names, _tags(sample))


def copy_out(select: LiteralString) -> LiteralString:
    """A statement's rows as a binary stream."""
    return statement("spark/read:copy_out").replace(_ROWS, select)


def parameters_of(name: str, *, sample: bool = False) -> frozenset[str]:
    """The names of a statement's parameters."""
    return frozenset(_PARAMETER.findall(variant(f"spark/read:{name}", _tags(sample))))


def _tags(sample: bool) -> frozenset[str]:
    return frozenset({"sample"} if sample else ())
