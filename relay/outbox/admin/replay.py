"""Take delivered or dead events back to PENDING, so that they are sent again (invariant 6 of the contract).

Oldest first, in batches that each are a short transaction of their own, at a bounded rate if asked; an event that
arrives in DELIVERED or DEAD again while the replay goes on is not taken twice. Where the optional table of
``sql/outbox/extensions/replay_audit.sql`` is there, each batch is recorded in its own transaction: which event, what
it was, when, which user, why.

On NATS an event that is sent again inside the stream's duplicate window is acknowledged and thrown away, for neither
its id nor its headers may change. ``ReplayOptions.duplicate_window`` makes that an error instead of a silence.

The database user needs SELECT and UPDATE on the table, and INSERT on the record where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from openoutbox import uuid7
from openoutbox.schema import tables_beside
from relay.core.blame import kept
from relay.core.durations import span, time_text
from relay.core.errors import ConfigError, OutboxError
from relay.outbox.admin.connection import Connection, fetch, operating, rows, short_transaction
from relay.outbox.admin.selection import COUNT_MOST, Apply, BulkOptions, Kind, Selection, SelectionReader
from relay.outbox.extensions import replays_of
from relay.postgres.grants import grant_on, rights_text
from relay.postgres.sql import TableName, statement

_DOING: Final = "replaying"
_RIGHTS: Final = rights_text("outbox/grants", "relay_events", "relay_settle")


class ReplayRefused(OutboxError):
    """The broker would drop the replayed events as duplicates; the message says until when."""


@dataclass(frozen=True, slots=True)
class ReplayOptions(BulkOptions):
    """How it is done."""

    duplicate_window: float = 0.0
    """Seconds for which the broker drops a repeated event; 0 for a broker that does not."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Events replayed and committed so far; of a preview, events that would be."""

    delivered: int = 0
    dead: int = 0
    exact: bool = True
    """False when a preview has stopped counting at ``COUNT_MOST``."""
    recorded: bool = False
    """Whether the record of replays is there."""

    @property
    def total(self) -> int:
        """Events of both kinds."""
        return self.delivered + self.dead


def preview(
    url: str, table: TableName, selection: Selection, options: ReplayOptions, count_most: int = COUNT_MOST
) -> Replayed:
    """What ``replay`` would replay now, up to ``count_most``. Raises ReplayRefused and StorageBusy as it does."""
    with operating(url, table, _DOING, _RIGHTS) as connection, short_transaction(connection):
        reader = SelectionReader(connection, table, selection)
        _refuse_duplicates(reader, selection.kinds, options)
        totals = Replayed(recorded=_recorded(connection, table))
        room = options.limit if options.limit is not None else count_most
        for kind in selection.kinds:
            most = min(room, count_most)
            count, _ = reader.count(kind, most + 1)
            room -= min(count, most)
            totals = _added(replace(totals, exact=totals.exact and count <= count_most), kind, min(count, most))
        return totals


def replay(
    url: str,
    table: TableName,
    selection: Selection,
    options: ReplayOptions,
    on_batch: Callable[[Replayed], None] = lambda _: None,
) -> Replayed:
    """Replay the events; ``on_batch`` receives the totals after each batch.

    Raises ReplayRefused before anything is done when an event was delivered within the duplicate window; StorageBusy
    when the table is locked for more than half a second. Batches that ``on_batch`` has received stay replayed.
    """
    with operating(url, table, _DOING, _RIGHTS) as connection:
        reader = SelectionReader(connection, table, selection)
        _refuse_duplicates(reader, selection.kinds, options)
        done = Replayed(recorded=_recorded(connection, table))
        batches = _Batches(connection, table, options, recorded=done.recorded)
        for kind in selection.kinds:
            others = done

            def report(total: int, kind: Kind = kind, others: Replayed = others) -> None:
                nonlocal done
                done = _added(others, kind, total - others.total)
                on_batch(done)

            reader.change(kind, options, done.total, batches.of(kind), report)
        reader.refusals.end()
        return done


def replay_event(connection: Connection, table: TableName, kind: Kind, event_id: UUID, options: ReplayOptions) -> None:
    """Replay one event in the caller's transaction, which holds the row's lock. Raises ReplayRefused."""
    reader = SelectionReader(connection, table, Selection((kind,), ids=(event_id,)), unchanged="infinity")
    _refuse_duplicates(reader, (kind,), options)
    batches = _Batches(connection, table, options, recorded=_recorded(connection, table))
    for events in reader.read(kind):
        if not all(written for _, written in batches.of(kind)(reader.locations(events))):
            raise kept(_DOING)


class _Batches:
    """Takes batches of events back, and records them."""

    def __init__(self, connection: Connection, table: TableName, options: ReplayOptions, *, recorded: bool) -> None:
        self._connection = connection
        self._table = table
        self._options = options
        self._recorded = recorded
        self._replay_id = uuid7()

    def of(self, kind: Kind) -> Apply:
        """Takes a batch back by its locations, in the caller's transaction."""

        def take(locations: Mapping[str, object]) -> Sequence[tuple[UUID, bool]]:
            batch = rows(self._connection, "outbox/bulk:replay", self._table, locations, kind)
            before = [(event_id, *was) for event_id, written, *was in batch if written]
            if before and self._recorded:
                _record(self._connection, self._table, before, self._replay_id, self._options)
            return [(event_id, written) for event_id, written, *_ in batch]

        return take


def _record(
    connection: Connection, table: TableName, batch: Sequence[tuple[Any, ...]], replay_id: UUID, options: ReplayOptions
) -> None:
    ids, statuses, attempts, errors, sinces = (list(column) for column in zip(*batch, strict=True))
    parameters = {
        "replay_id": replay_id,
        "outbox": str(table),
        "replayed_by": options.who,
        "reason": options.reason,
        "ids": [str(id_) for id_ in ids],
        "statuses": statuses,
        "attempts": attempts,
        "errors": errors,
        "sinces": [str(since) for since in sinces],
    }
    sql = statement("outbox/replay:record", table, tables_beside(table))
    connection.execute(sql, parameters)


def _recorded(connection: Connection, table: TableName) -> bool:
    """Whether the record is there. Raises ConfigError when this user may not write to it."""
    sql = statement("outbox/replay:may_record")
    [(allowed,)] = fetch(connection, sql, {"table": replays_of(table).quoted})
    if allowed is False:
        grant = grant_on(rights_text("outbox/grants", "console_replays"), replays_of(table), connection.info.user)
        raise ConfigError(f"no right to record replays; run: {grant}")
    return bool(allowed)


def _refuse_duplicates(reader: SelectionReader, kinds: Sequence[Kind], options: ReplayOptions) -> None:
    if not options.duplicate_window or "delivered" not in kinds:
        return
    window = timedelta(seconds=options.duplicate_window)
    count, newest = reader.count("delivered", earliest=reader.now - window)
    if count:
        until = (newest if isinstance(newest, datetime) else reader.now) + window + timedelta(seconds=1)
        raise ReplayRefused(
            f"of these events, {count} arrived less than {span(options.duplicate_window)} ago, within the stream's "
            f"duplicate window: NATS would acknowledge and drop the repeats. Run it after {time_text(until)}, "
            f"leave them out with --to {_minutes(options.duplicate_window)}m, or send them anyway with --force"
        )


def _minutes(seconds: float) -> int:
    """Whole minutes, rounded up: an age that the command line takes."""
    return -int(-seconds // 60)


def _added(done: Replayed, kind: Kind, count: int) -> Replayed:
    if kind == "delivered":
        return replace(done, delivered=done.delivered + count)
    return replace(done, dead=done.dead + count)
