"""Findings about what the outbox table is and has besides a plain table: for ``relay-cli check``, which alone calls it.

Reads the catalog only. Raises what the connection raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.core.finding import Finding, Level
from relay.outbox.admin.connection import Connection, fetch
from relay.postgres.sql import TableName, statement

_KEEPS: Final = {
    "trigger": "BEFORE trigger {} may raise an error for an event, or keep it as it was",
    "rule": "rule {} may keep an event as it was, or fail every claim",
    "policy": "RESTRICTIVE policy {} may hide an event, or refuse its change",
}
_REFUSED: Final = "such an event is refused: it waits, or is sent again, and the relay names it in /readyz"


def kind_findings(connection: Connection, table: TableName) -> Iterator[Finding]:
    """A finding for each child, each parent, each publication that stops updates, and for an unlogged table.

    And for each trigger, rule and policy that may keep a row from being changed.
    """
    for kind, name in fetch(connection, statement("outbox/table:surprises"), {"table": table.quoted}):
        yield _keeps(kind, name, table) if kind in _KEEPS else _finding(kind, name, table)


def _keeps(kind: str, name: str, table: TableName) -> Finding:
    message = f"{_KEEPS[kind].format(name)}; {_REFUSED}"
    advice = f"let it pass what a relay writes, or run: DROP {kind.upper()} {name} ON {table.quoted}"
    return Finding(Level.WARNING, "table", message, advice)


def _finding(kind: str, name: str, table: TableName) -> Finding:
    match kind:
        case "unlogged":
            message = f"{table} is UNLOGGED: a crash of the server empties it, and a standby has none of its rows"
            return Finding(Level.WARNING, "table", message, f"run: ALTER TABLE {table.quoted} SET LOGGED")
        case "child":
            message = f"table {name} inherits from {table}: the relay leaves its rows alone, other readers may not"
            advice = f"run: ALTER TABLE {name} NO INHERIT {table.quoted}"
            return Finding(Level.WARNING, "table", message, advice)
        case "parent":
            message = f"{table} inherits from {name}: whatever changes {name} without ONLY changes events too"
            advice = f"run: ALTER TABLE {table.quoted} NO INHERIT {name}"
            return Finding(Level.WARNING, "table", message, advice)
        case _:
            message = f"publication {name} sends changes of {table}, which has no replica identity: no claim succeeds"
            advice = f"run: ALTER TABLE {table.quoted} REPLICA IDENTITY DEFAULT, with event_id as its primary key"
            return Finding(Level.ERROR, "table", message, advice)
