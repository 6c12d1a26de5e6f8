"""The record of what operators changed through the console: who, when, what, how many events and why.

It is the optional table of ``sql/outbox/extensions/console.sql``. A key that the client chooses makes a change happen
once: the same request under the same key returns the change that is recorded.

A cancelled event is deleted from the outbox, and its row kept beside the record.

The database user needs SELECT on the record to show it, and INSERT and UPDATE to change anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from openoutbox import uuid7
from openoutbox.schema import tables_beside
from relay.core.errors import OutboxError
from relay.outbox.admin.connection import Connection, Moment, fetch, operating
from relay.outbox.extensions import cancelled_of, changes_of
from relay.postgres.grants import Holding, Right, grant_on, holding, rights_text
from relay.postgres.sql import TableName, statement

LONGEST_KEY: Final = 200
"""Characters of an idempotency key."""

_DOING: Final = "reading the record of changes"
_NEWEST: Final = 2**63 - 1


class RecordMissing(OutboxError):
    """The record of changes is missing or not granted; nothing is changed without it."""


class KeyReused(OutboxError):
    """The idempotency key belongs to another request of the same user."""


class ChangeState(StrEnum):
    """How far a change has come."""

    RUNNING = "running"
    COMPLETE = "complete"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """Running, without progress for two minutes, and stopped by no operator: its process has ended."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks for a change, and why."""

    who: str
    key: str
    """The idempotency key, unique for this user."""
    reason: str = ""


class Change(NamedTuple):
    """One recorded change; the columns of ``show`` in ``sql/outbox/changes.sql``."""

    change_id: UUID
    action: str
    selection: str
    """JSON."""
    changed_by: str
    reason: str
    state: str
    events: int
    expected: int | None
    """Events that a preview counted before the change began; None when nothing was counted."""
    error: str | None
    started_at: Moment
    updated_at: Moment
    number: int
    may_have_been_sent: int | None = None
    """Of a cancellation: the events that a relay may have had before; None where that is not counted."""


def check_record(connection: Connection, table: TableName, *, writes: bool) -> None:
    """Raise RecordMissing unless changes can be recorded, or without ``writes`` read."""
    record = changes_of(table)
    [(readable, writable)] = fetch(connection, statement("outbox/changes:rights"), {"table": record.quoted})
    if readable is None:
        raise RecordMissing(
            f"there is no table {record} to record changes in; create it with: "
            f"relay-cli migrate --table {table} --with console"
        )
    if not (readable and (writable or not writes)):
        user = connection.info.user
        grant = grant_on(rights_text("outbox/grants", "console_record" if writes else "reader_changes"), record, user)
        raise RecordMissing(f"{user} may not {'record' if writes else 'read'} changes; run as the owner: {grant}")


def cancel(
    connection: Connection,
    table: TableName,
    change_id: UUID | None,
    locations: Mapping[str, object],
    tags: Sequence[str] = (),
) -> list[tuple[UUID, bool]]:
    """Delete waiting events, and keep their rows: of each its id, and whether it was deleted. Raises RecordMissing."""
    place = cancelled_of(table)
    held = holding(connection, Right("INSERT", "table", place.quoted))
    if held is Holding.NO_OBJECT:
        raise RecordMissing(
            f"there is no table {place} to keep cancelled events in; create it with: "
            f"relay-cli migrate --table {table} --with console"
        )
    if held is not Holding.YES:
        user = connection.info.user
        grant = grant_on(rights_text("outbox/grants", "console_cancelled"), place, user)
        raise RecordMissing(f"{user} may not keep cancelled events; run as the owner: {grant}")
    values = {**locations, "outbox": str(table), "change_id": change_id}
    return _fetch(connection, table, "cancel", values, *tags)


def begin(
    connection: Connection,
    table: TableName,
    request: Request,
    action: str,
    selection: Mapping[str, object],
    expected: int | None = None,
) -> tuple[Change, bool]:
    """Record that a change begins; the change, and whether it is new.

    Raises RecordMissing, and KeyReused when the key belongs to another request.
    """
    check_record(connection, table, writes=True)
    values = {
        "change_id": uuid7(),
        "outbox": str(table),
        "action": action,
        "selection": json.dumps(selection, ensure_ascii=False, sort_keys=True),
        "changed_by": request.who,
        "reason": request.reason,
        "idempotency_key": request.key,
        "expected": expected,
    }
    new = bool(_fetch(connection, table, "begin", values))
    [change] = [Change(*row) for row in _fetch(connection, table, "show", values, "by_key")]
    if (change.action, change.selection, change.reason) != (action, values["selection"], request.reason):
        raise KeyReused(
            f"the idempotency key {request.key!r} belongs to change {change.change_id}, which is another one; "
            "use a new key for each change"
        )
    return change, new


def record_progress(
    connection: Connection,
    table: TableName,
    change_id: UUID,
    events: int,
    state: ChangeState = ChangeState.RUNNING,
    error: str | None = None,
) -> str | None:
    """Record how many events were changed so far, and how the change ended; who stopped it, if an operator did."""
    values = {"change_id": change_id, "events": events, "state": str(state), "error": error}
    rows = _fetch(connection, table, "progress", values)
    return rows[0][0] if rows else None


def stop_change(url: str, table: TableName, change_id: UUID, who: str) -> Change | None:
    """Stop a change after its next batch, whichever process makes it; the change, or None. Raises RecordMissing."""
    values = {"change_id": change_id, "outbox": str(table), "error": f"stopped by {who}"}
    with operating(url, table, _DOING) as connection:
        check_record(connection, table, writes=True)
        _fetch(connection, table, "stop", values)
        return recorded(connection, table, change_id)


def show_change(url: str, table: TableName, change_id: UUID) -> Change | None:
    """One change of this outbox, or None. Raises RecordMissing."""
    with operating(url, table, _DOING) as connection:
        check_record(connection, table, writes=False)
        return recorded(connection, table, change_id)


def recorded(connection: Connection, table: TableName, change_id: UUID) -> Change | None:
    """As ``show_change``, over a connection."""
    matches = _fetch(connection, table, "show", {"change_id": change_id, "outbox": str(table)}, "by_id")
    return Change(*matches[0]) if matches else None


def list_changes(url: str, table: TableName, limit: int, before: int | None = None) -> list[Change]:
    """The newest changes, before the one with this number. Raises RecordMissing."""
    with operating(url, table, _DOING) as connection:
        check_record(connection, table, writes=False)
        values = {"outbox": str(table), "limit": limit, "before": _NEWEST if before is None else before}
        return [Change(*row) for row in _fetch(connection, table, "show", values, "before")]


def _fetch(
    connection: Connection, table: TableName, name: str, values: Mapping[str, object], *tags: str
) -> list[tuple[Any, ...]]:
    return fetch(connection, statement(f"outbox/changes:{name}", table, tables_beside(table), tags), values)
