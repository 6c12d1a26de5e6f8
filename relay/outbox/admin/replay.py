"""Take delivered or dead events back to PENDING, so that they are sent again (invariant 6 of the contract).

Oldest first, in batches that each are a short transaction of their own, at a bounded rate if asked; an event that
arrives in DELIVERED or DEAD again while the replay goes on is not taken twice. Where the optional table of
``sql/outbox/extensions/replay_audit.sql`` is there, each batch is recorded in its own transaction: which event, what
it was, when, by whom, why.

On NATS an event that is sent again inside the stream's duplicate window is acknowledged and thrown away, for neither
its id nor its headers may change. ``ReplayOptions.duplicate_window`` makes that an error instead of a silence.

The database user needs SELECT and UPDATE on the table, and INSERT on the record where there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from relay.client import uuid7
from relay.core.errors import ConfigError, OutboxError
from relay.outbox.admin.connection import (
    Connection,
    Moment,
    database_time,
    fetch,
    operating,
    rows,
    short_transaction,
)
from relay.outbox.extensions import REPLAYS, replays_of
from relay.outbox.tablecheck import WRITTEN
from relay.postgres.sql import TableName, statement

COUNT_MOST: Final = 5_000_000
"""Where a preview stops counting."""

_DOING: Final = "replaying"
_RIGHTS: Final = f"SELECT, UPDATE ({', '.join(WRITTEN)})"

Kind = Literal["delivered", "dead"]
Bound = datetime | timedelta
"""A time, or how long ago by the database's clock."""


class ReplayRefused(OutboxError):
    """The broker would drop the replayed events as duplicates; the message says until when."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which events. None and empty do not ask; times are those at which events were delivered or died."""

    kinds: tuple[Kind, ...] = ("dead",)
    ids: tuple[UUID, ...] = ()
    event_type: str | None = None
    partition_key: str | None = None
    since: Bound | None = None
    until: Bound | None = None


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How it is done."""

    limit: int | None = None
    """Most events."""
    rate: float | None = None
    """Most events a second."""
    batch_size: int = 500
    reason: str = ""
    who: str = ""
    """Beside the database user, in the record."""
    duplicate_window: float = 0.0
    """Seconds for which the broker drops a repeated event; 0 for a broker that does not."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Events taken back and committed so far; of a preview, events that would be."""

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


def preview(url: str, table: TableName, selection: Selection, options: ReplayOptions) -> Replayed:
    """What ``replay`` would take back now. Raises ReplayRefused as ``replay`` does."""
    with operating(url, table, _DOING, _RIGHTS) as connection:
        parameters = _parameters(connection, selection)
        _refuse_duplicates(connection, table, selection, options, parameters)
        totals = Replayed(recorded=_recorded(connection, table))
        room = options.limit if options.limit is not None else COUNT_MOST
        for kind in selection.kinds:
            most = min(room, COUNT_MOST)
            bounded = {**parameters, "most": most + 1}
            [(count, _)] = rows(connection, "outbox/replay:replayable", table, bounded, kind)
            room -= min(count, most)
            totals = _added(replace(totals, exact=totals.exact and count <= COUNT_MOST), kind, min(count, most))
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
    when the table is locked for more than half a second; what ``on_batch`` was told of stays done.
    """
    with operating(url, table, _DOING, _RIGHTS) as connection:
        parameters = _parameters(connection, selection)
        _refuse_duplicates(connection, table, selection, options, parameters)
        done = Replayed(recorded=_recorded(connection, table))
        replay_id = uuid7()
        pace = _Pace(options.rate)
        for kind in selection.kinds:
            after: Moment = "-infinity"
            while size := _next_size(options, done.total):
                with short_transaction(connection):
                    batch = _batch(connection, table, kind, {**parameters, "after": after, "limit": size})
                    if batch and done.recorded:
                        _record(connection, table, batch, replay_id, options)
                if batch:
                    after = batch[-1][4]
                    done = _added(done, kind, len(batch))
                    on_batch(done)
                if len(batch) < size:
                    break
                pace.wait(len(batch))
        return done


class _Pace:
    """At most so many events a second, counted from the start."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due = time.monotonic()

    def wait(self, events: int) -> None:
        """Sleep until the next batch may begin."""
        if self._rate is not None:
            self._due += events / self._rate
            time.sleep(max(self._due - time.monotonic(), 0.0))


def _next_size(options: ReplayOptions, done: int) -> int:
    size = options.batch_size
    if options.rate is not None:
        size = min(size, max(int(options.rate), 1))
    return size if options.limit is None else min(size, options.limit - done)


def _parameters(connection: Connection, selection: Selection) -> dict[str, Any]:
    now = database_time(connection)
    until = _at(selection.until, now)
    return {
        "since": _at(selection.since, now),
        "until": now if until is None else min(until, now),
        "event_type": selection.event_type,
        "partition_key": selection.partition_key,
        "ids": [str(id_) for id_ in selection.ids] or None,
    }


def _at(bound: Bound | None, now: datetime) -> datetime | None:
    return now - bound if isinstance(bound, timedelta) else bound


def _batch(connection: Connection, table: TableName, kind: Kind, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Event id, status, attempts, error and time of each event taken back, oldest first."""
    return rows(connection, "outbox/replay:replay", table, parameters, kind)


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
    sql = statement("outbox/replay:record", table, {REPLAYS: replays_of(table)})
    connection.execute(sql, parameters)


def _recorded(connection: Connection, table: TableName) -> bool:
    """Whether the record is there. Raises ConfigError when this user may not write to it."""
    sql = statement("outbox/replay:may_record")
    [(allowed,)] = fetch(connection, sql, {"table": replays_of(table).quoted})
    if allowed is False:
        raise ConfigError(f"no right to record replays; run: GRANT INSERT ON {replays_of(table).quoted} TO this user")
    return bool(allowed)


def _refuse_duplicates(
    connection: Connection, table: TableName, selection: Selection, options: ReplayOptions, parameters: dict[str, Any]
) -> None:
    if not options.duplicate_window or "delivered" not in selection.kinds:
        return
    window = timedelta(seconds=options.duplicate_window)
    now = database_time(connection)
    begins = now - window
    since = begins if parameters["since"] is None else max(begins, parameters["since"])
    recent = {**parameters, "since": since, "most": COUNT_MOST}
    [(count, newest)] = rows(connection, "outbox/replay:replayable", table, recent, "delivered")
    if count:
        until = (newest if isinstance(newest, datetime) else now) + window + timedelta(seconds=1)
        raise ReplayRefused(
            f"of these events, {count} arrived less than {options.duplicate_window:g} s ago, within the stream's "
            f"duplicate window: NATS would acknowledge and drop the repeats. Run it after {until:%Y-%m-%dT%H:%M:%SZ}, "
            f"leave them out with --to {_minutes(options.duplicate_window)}m, or insist with --force"
        )


def _minutes(seconds: float) -> int:
    """Whole minutes, rounded up: an age that the command line takes."""
    return -int(-seconds // 60)


def _added(done: Replayed, kind: Kind, count: int) -> Replayed:
    if kind == "delivered":
        return replace(done, delivered=done.delivered + count)
    return replace(done, dead=done.dead + count)
