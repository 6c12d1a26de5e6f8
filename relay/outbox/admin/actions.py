"""Change one event: retry it now, replay it, bury it, cancel it. Each change is recorded in its own transaction.

- *retry*: a PENDING event that waits for its next attempt is due now.
- *replay*: a DELIVERED or DEAD event is PENDING again, as if never tried.
- *bury*: a PENDING event is DEAD, until it is replayed.
- *cancel*: a PENDING event is deleted, and its row kept beside the record: an application's ``openoutbox_cancel``.

An event that a relay holds (DELIVERING) is never changed: its lease decides.

The database user needs SELECT and UPDATE on the outbox, DELETE to cancel, and what ``relay.outbox.admin.changes``
needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from relay.core.errors import OutboxError
from relay.core.event import Status
from relay.outbox.admin.changes import Change, ChangeState, Request, begin, cancel, record_progress, recorded
from relay.outbox.admin.connection import Connection, Moment, operating, rows, short_transaction
from relay.outbox.admin.replay import ReplayOptions, replay_event
from relay.outbox.admin.selection import Kind
from relay.postgres.grants import rights_text
from relay.postgres.sql import TableName

BURIED: Final = "BURIED"
"""The code in ``last_error`` of events that an operator made DEAD."""

_DOING: Final = "changing an event"
_RIGHTS: Final = rights_text("outbox/grants", "console_events", "console_change")
_RIGHTS_TO_CANCEL: Final = rights_text("outbox/grants", "console_events", "console_change", "relay_delete")


class Action(StrEnum):
    """What an operator does to one event."""

    RETRY = "retry"
    REPLAY = "replay"
    BURY = "bury"
    CANCEL = "cancel"


NARROWING: Final[Mapping[Action, tuple[str, ...]]] = {
    Action.RETRY: ("later",),
    Action.REPLAY: (),
    Action.BURY: (),
    Action.CANCEL: ("later", "untried"),
}
"""Which waiting events an action applies to, as tags of the statements that select many."""


class EventMissing(OutboxError):
    """There is no event of this id."""


class EventMoved(OutboxError):
    """The event was changed after the operator saw it."""


class ActionRefused(OutboxError):
    """The event's status does not allow the action."""


@dataclass(frozen=True, slots=True)
class EventAction:
    """One action on one event."""

    action: Action
    event_id: UUID
    expected: datetime | None = None
    """The event's ``updated_at`` as the operator saw it; None does not compare."""


class _Row(NamedTuple):
    status: str
    attempts: int
    later: bool
    updated_at: Moment


def rights_to(action: Action) -> str:
    """The rights on the outbox that an error names."""
    return _RIGHTS_TO_CANCEL if action is Action.CANCEL else _RIGHTS


def check_action(url: str, table: TableName, action: EventAction) -> None:
    """Raise what ``change_event`` would raise now; changes nothing."""
    with operating(url, table, _DOING, rights_to(action.action)) as connection, short_transaction(connection):
        _permitted(connection, table, action)


def change_event(
    url: str, table: TableName, action: EventAction, request: Request, duplicate_window: float = 0.0
) -> tuple[Change, bool]:
    """Do it, and record it; the change, and whether it is new: a repeated request returns the first one's.

    Raises EventMissing, EventMoved, ActionRefused, ReplayRefused within the broker's ``duplicate_window`` (seconds),
    RecordMissing, KeyReused, and StorageBusy when another session holds the row for half a second.
    """
    selection = {"event_id": str(action.event_id)}
    with operating(url, table, _DOING, rights_to(action.action)) as connection, short_transaction(connection):
        change, new = begin(connection, table, request, action.action, selection)
        if not new:
            return change, False
        row = _permitted(connection, table, action)
        if action.action is Action.REPLAY:
            kind: Kind = "dead" if row.status == Status.DEAD else "delivered"
            options = ReplayOptions(reason=request.reason, who=request.who, duplicate_window=duplicate_window)
            replay_event(connection, table, kind, action.event_id, options)
        else:
            _apply(connection, table, action, request, change.change_id)
        record_progress(connection, table, change.change_id, 1, ChangeState.COMPLETE)
        return recorded(connection, table, change.change_id) or change, True


def _permitted(connection: Connection, table: TableName, action: EventAction) -> _Row:
    """Lock the event, and refuse what its status does not allow."""
    matches = rows(connection, "outbox/changes:lock", table, {"event_id": action.event_id})
    if not matches:
        raise EventMissing(f"there is no event {action.event_id} in table {table}")
    row = _Row(*matches[0])
    if action.expected is not None and row.updated_at != action.expected:
        raise EventMoved(f"event {action.event_id} is {row.status} and was changed after you saw it; look at it again")
    if reason := _refusal(action.action, row):
        raise ActionRefused(f"event {action.event_id} is {row.status}: {reason}")
    return row


def _refusal(action: Action, row: _Row) -> str:
    """Why the action is refused; empty when it is allowed."""
    waits = row.status == Status.PENDING
    match action:
        case Action.REPLAY:
            ended = row.status in {Status.DEAD, Status.DELIVERED}
            return "" if ended else "only a delivered or dead event can be replayed"
        case Action.RETRY if not waits:
            return "only a waiting event can be retried now"
        case Action.RETRY:
            return "" if row.later else "it is already due; check that a relay runs"
        case Action.BURY:
            return "" if waits else "only a waiting event can be buried"
        case _:
            return "" if waits else "only a waiting event can be cancelled"


def _apply(connection: Connection, table: TableName, action: EventAction, request: Request, change_id: UUID) -> None:
    values = {"event_id": action.event_id}
    if action.action is Action.RETRY:
        written = rows(connection, "outbox/changes:retry", table, values) == [(True,)]
    elif action.action is Action.CANCEL:
        locations = {"ids": [str(action.event_id)], "unchanged": "infinity"}
        written = cancel(connection, table, change_id, locations) == [(action.event_id, True)]
    else:
        error = buried(request.who, request.reason)
        written = rows(connection, "outbox/changes:bury", table, {**values, "error": error}) == [(True,)]
    if not written:
        raise ActionRefused(f"event {action.event_id} stays: a trigger, a rule or a policy of {table} keeps it")


def buried(who: str, reason: str) -> str:
    """What ``last_error`` says of an event that an operator has made DEAD."""
    return f"{BURIED}: by {who}" + (f": {reason}" if reason else "")
