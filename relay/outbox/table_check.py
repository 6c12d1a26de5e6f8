"""Is the configured table one that the relay can work on? Looked at once, when the storage is opened.

Only what the relay needs is required, however the table was created: a plain table, the contract's columns, SELECT
on it, and UPDATE on the columns it writes. ``relay-cli migrate`` compares everything else.
"""

from __future__ import annotations

import shlex
from collections.abc import Container
from typing import Final

from relay.core.errors import SchemaError
from relay.outbox.schema import COLUMNS
from relay.postgres.connect import Connection
from relay.postgres.errors import USAGE
from relay.postgres.grants import NO_PRIVILEGE, THE_USER, grant_on, rights_text
from relay.postgres.sql import TableName, quote_identifier, statement

OLDEST_POSTGRESQL: Final = 15
"""As docs/reference/stability.md says."""
ORDER_COLUMN: Final = "insertion_order"
"""What ``sql/outbox/extensions/key_order.sql`` adds, and ORDERING=key needs."""
FAN_OUT_COLUMN: Final = "acknowledged_by"
"""What ``sql/outbox/extensions/fan_out.sql`` adds."""
NOT_RECORDED: Final = (
    "an event that one of several destinations has not acknowledged is sent to all of them again, and while one does "
    "not answer the others wait for events of that type, too"
)
"""What becomes of routes to several destinations without it."""
UPDATE_RIGHT: Final = rights_text("outbox/grants", "relay_settle")
WRITTEN: Final = tuple(UPDATE_RIGHT.removeprefix("UPDATE (").removesuffix(")").split(", "))
READ_RIGHT: Final = rights_text("outbox/grants", "relay_events")
DELETE_RIGHT: Final = rights_text("outbox/grants", "relay_delete")
FAN_OUT_RIGHT: Final = rights_text("outbox/grants", "relay_fan_out")
UNDEFINED_TABLE: Final = "42P01"
"""SQLSTATEs of what an operator may yet put right while the relay waits; what is wrong with the table has none."""
_KINDS: Final = {"p": "a partitioned table", "v": "a view", "m": "a materialized view", "f": "a foreign table"}


async def check_table(
    connection: Connection, table: TableName, *, key_order: bool = False, delete_delivered: bool = False
) -> bool:
    """Raise SchemaError, saying what to do, unless the relay can work on ``table``.

    Returns whether it can remember there which destinations have acknowledged an event (extension fan-out).

    ``key_order`` is ORDERING=key, ``delete_delivered`` ON_DELIVERED=delete: each needs more than the contract does.
    """
    cursor = await connection.execute(statement("outbox/table:describe"), {"table": table.quoted})
    row = await cursor.fetchone()
    if row is None:
        raise SchemaError(
            f"there is no table {table} for this user; create it with: {creation(table)}, or where it exists: "
            f"{USAGE} {quote_identifier(table.schema or 'public')} TO {THE_USER}",
            UNDEFINED_TABLE,
        )
    kind, may_select, columns, writable, may_delete = row
    refuse_kind(kind, table)
    refuse_missing(columns, table)
    if key_order and ORDER_COLUMN not in columns:
        raise SchemaError(
            f"table {table} lacks the column {ORDER_COLUMN}, which ORDERING=key needs; "
            f"add it with: {creation(table)} --with key-order"
        )
    denied = [name for name in WRITTEN if name not in (writable or ())]
    _refuse_rights(table, may_select=may_select, denied=denied, lacks_delete=delete_delivered and not may_delete)
    return FAN_OUT_COLUMN in writable


def _refuse_rights(table: TableName, *, may_select: bool, denied: list[str], lacks_delete: bool) -> None:
    """Raise SchemaError for the first right that the relay's user lacks."""
    if not may_select:
        raise SchemaError(f"no right to read table {table}; run: {grant_on(READ_RIGHT, table, THE_USER)}", NO_PRIVILEGE)
    if denied:
        raise SchemaError(
            f"no right to write {', '.join(denied)} of table {table}; run: {grant_on(UPDATE_RIGHT, table, THE_USER)}",
            NO_PRIVILEGE,
        )
    if lacks_delete:
        raise SchemaError(
            f"no right to delete rows of table {table}, which ON_DELIVERED=delete needs; "
            f"run: {grant_on(DELETE_RIGHT, table, THE_USER)}",
            NO_PRIVILEGE,
        )


def creation(table: TableName) -> str:
    """The command that makes the table, as a shell takes it."""
    return f"relay-cli migrate --table {shlex.quote(str(table))}"


def refuse_missing(columns: Container[str], table: TableName) -> None:
    """Raise SchemaError for a table that is not an outbox: a column of the contract's is not there."""
    missing = [column.name for column in COLUMNS if column.name not in columns]
    if missing:
        raise SchemaError(
            f"table {table} lacks the column{'s' if missing[1:] else ''} {', '.join(missing)}; "
            "relay-cli migrate says how it differs from an outbox table"
        )


def refuse_kind(kind: str, table: TableName) -> None:
    """Raise SchemaError unless ``kind`` (pg_class.relkind) is a plain table."""
    if kind != "r":
        raise SchemaError(
            f"{table} is {_KINDS.get(kind, 'not a table')}; the relay needs a plain table, because it finds its rows "
            "by ctid, which is unique within one plain table only"
        )
