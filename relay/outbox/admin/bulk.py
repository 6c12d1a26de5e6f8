"""Change many events: retry, replay, bury or cancel all that a selection names.

What each action does and which events it applies to is what ``relay.outbox.admin.actions`` says of one event. Replays
are ``relay.outbox.admin.replay``'s; the other actions apply to waiting events alone. An event that a relay holds, or
claims at that moment, is left out: its lease decides.

The database user needs SELECT and UPDATE on the table, and what ``relay.outbox.admin.changes`` needs to cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from relay.outbox.admin.actions import NARROWING, Action, buried, rights_to
from relay.outbox.admin.changes import cancel
from relay.outbox.admin.connection import Connection, database_time, operating, rows, short_transaction
from relay.outbox.admin.replay import ReplayOptions, preview, replay
from relay.outbox.admin.selection import COUNT_MOST, Apply, Kind, Selection, SelectionReader
from relay.postgres.sql import TableName

KINDS: Final[Mapping[Action, tuple[Kind, ...]]] = {
    Action.RETRY: ("pending",),
    Action.REPLAY: ("dead", "delivered"),
    Action.BURY: ("pending",),
    Action.CANCEL: ("pending",),
}
"""The statuses that an action applies to; the first one where a selection names none."""

_DOING: Final = "changing events"


class BulkCount(NamedTuple):
    """What a change would take."""

    events: int
    exact: bool
    """False when there are more."""
    at: datetime
    """The database's time before the count: with it as ``unchanged_since`` no later event is taken."""


def count_events(
    url: str,
    table: TableName,
    action: Action,
    selection: Selection,
    options: ReplayOptions,
    count_most: int = COUNT_MOST,
) -> BulkCount:
    """What ``change_events`` would take now, up to ``count_most``. Raises ReplayRefused and StorageBusy as it does."""
    if action is Action.REPLAY:
        with operating(url, table, _DOING) as connection:
            at = database_time(connection)
        counts = preview(url, table, selection, options, count_most)
        return BulkCount(counts.total, counts.exact, at)
    with operating(url, table, _DOING, rights_to(action)) as connection, short_transaction(connection):
        reader = SelectionReader(connection, table, selection, NARROWING[action])
        most = count_most if options.limit is None else min(options.limit, count_most)
        count, _ = reader.count("pending", most + 1)
        return BulkCount(min(count, most), count <= count_most, reader.now)


def change_events(
    url: str,
    table: TableName,
    action: Action,
    selection: Selection,
    options: ReplayOptions,
    on_batch: Callable[[int], None] = lambda _: None,
    *,
    change_id: UUID | None = None,
) -> int:
    """Change the events; their number. ``on_batch`` receives the total after each batch, and may raise to stop.

    ``change_id`` is that of the record, which cancelled events are kept with.

    Raises ReplayRefused before anything is done when the broker would drop a replayed event; StorageBusy when the
    table is locked for more than half a second. Batches that ``on_batch`` has received stay changed.
    """
    if action is Action.REPLAY:
        return replay(url, table, selection, options, lambda done: on_batch(done.total)).total
    with operating(url, table, _DOING, rights_to(action)) as connection:
        reader = SelectionReader(connection, table, selection, NARROWING[action])
        changed = reader.change(
            "pending", options, 0, _applying(connection, table, action, options, change_id), on_batch
        )
        reader.refusals.end()
        return changed


def _applying(
    connection: Connection, table: TableName, action: Action, options: ReplayOptions, change_id: UUID | None
) -> Apply:
    """Changes a batch by its locations, in the caller's transaction."""
    variant = "retry" if action is Action.RETRY else "bury"
    error = buried(options.who, options.reason)

    def apply(locations: Mapping[str, object]) -> Sequence[tuple[UUID, bool]]:
        if action is Action.CANCEL:
            return cancel(connection, table, change_id, locations, NARROWING[action])
        values = {**locations, "error": error}
        batch = rows(connection, "outbox/bulk:change", table, values, variant, *NARROWING[action])
        return [(event_id, written) for event_id, written in batch]

    return apply
