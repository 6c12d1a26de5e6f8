"""The statements of reading: the files under ``sql/spark/reading`` with names of a table and of its columns.

Values are bound by the client: COPY takes no parameters on the server's side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, LiteralString

from relay.postgres.sql import Name, TableName, load_sql, statement

_COLUMNS: Final = "chosen_columns"
_ROWS: Final = "SELECT chosen_rows"
_ATTEMPTS: Final = "openoutbox_log.attempts"
_PARAMETER: Final = re.compile(r"%\(([a-z_0-9]+)\)s")


def reading(name: str, table: TableName | None = None, columns: Sequence[str] = ()) -> LiteralString:
    """One file's statement, for a table and for these of its columns."""
    names: dict[str, Name] = {_COLUMNS: tuple(columns)}
    if table is not None:
        names[_ATTEMPTS] = table
    return statement(f"spark/reading/{name}.sql", table, names)


def copying(select: LiteralString) -> LiteralString:
    """A statement's rows as a binary stream."""
    return statement("spark/reading/copy_out.sql").replace(_ROWS, select)


def parameters_of(name: str) -> frozenset[str]:
    """The names of the values that a statement takes."""
    return frozenset(_PARAMETER.findall(load_sql(f"spark/reading/{name}.sql")))
