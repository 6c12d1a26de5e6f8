"""The event types of an outbox at a glance: pace, latency, what waits, what is dead. Reads only, and locks nothing.

No index of the contract begins with the event type, so nothing is counted over the whole table: each figure is of a
bounded sample along an index, and ``EventTypes`` says of each sample whether it was everything. So the page costs the
same on a table of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from relay.core.pause import Pause
from relay.outbox.admin.readings import bounded_reading, one_round_trip
from relay.outbox.pauses import pauses_in_force
from relay.postgres.sql import TableName

MOST_SAMPLED: Final = 10_000
"""Rows of one sample."""
MOST_TYPES: Final = 200

_HOUR: Final = 3600.0
_MINUTE: Final = 60.0


class EventPace(NamedTuple):
    """Events a minute, as the mean of a time that has just ended."""

    last_minute: float
    last_hour: float


class SampledRows(NamedTuple):
    """What figures are based on."""

    rows: int
    whole: bool
    """Whether the sample is all that it could be: False when there are more rows."""
    seconds: float
    """The time that it covers, an hour at most."""


class EventTypeFigures(NamedTuple):
    """One event type."""

    event_type: str
    delivered: EventPace
    died: EventPace
    p50: float | None
    """Seconds from created to delivered; None when the sample has no delivery."""
    p99: float | None
    waiting: int
    retrying: int
    """Of those, after a failed attempt."""
    oldest_due_age: float | None
    """Seconds; None when no event of the sample is due."""
    dead: int


class EventTypes(NamedTuple):
    """Event types, those with the most events first, and the samples of their figures."""

    types: list[EventTypeFigures]
    delivered: SampledRows
    """The newest deliveries of the last hour."""
    waiting: SampledRows
    """The events that are due first."""
    dead: SampledRows
    """The newest dead events."""
    pauses: list[Pause] | None = None
    """Those in force; None without the extension."""


_Rows = Sequence[tuple[Any, ...]]


def read_event_types(url: str, table: TableName) -> EventTypes:
    """At most ``MOST_TYPES`` types. Raises StorageBusy for a statement that takes longer than its limit."""
    bounds = {"most": MOST_SAMPLED, "types": MOST_TYPES}
    with bounded_reading(url, table, "reading the event types") as connection:
        _, delivered, waiting, dead = one_round_trip(
            connection,
            table,
            ("outbox/claim:guard", {}),
            ("outbox/types:delivered", bounds),
            ("outbox/types:waiting", bounds),
            ("outbox/types:dead", bounds),
        )
        pauses = pauses_in_force(connection, table)
    return _merged(delivered, waiting, dead)._replace(pauses=pauses)


def _merged(delivered: _Rows, waiting: _Rows, dead: _Rows) -> EventTypes:
    of_deliveries = _sample(*delivered[0][-2:]) if delivered else _sample(0)
    of_waiting = _sample(waiting[0][-1]) if waiting else _sample(0)
    of_dead = _sample(*dead[0][-2:]) if dead else _sample(0)
    deliveries, backlog, deaths = ({row[0]: row[1:] for row in rows} for rows in (delivered, waiting, dead))
    types = []
    for name in deliveries.keys() | backlog.keys() | deaths.keys():
        in_hour, in_minute, p50, p99, *_ = deliveries.get(name, (0, 0, None, None))
        events, retrying, oldest_due_age, *_ = backlog.get(name, (0, 0, None))
        all_dead, died_in_hour, died_in_minute, *_ = deaths.get(name, (0, 0, 0))
        figures = EventTypeFigures(
            event_type=name,
            delivered=_pace(in_minute, in_hour, of_deliveries),
            died=_pace(died_in_minute, died_in_hour, of_dead),
            p50=p50,
            p99=p99,
            waiting=events,
            retrying=retrying,
            oldest_due_age=oldest_due_age,
            dead=all_dead,
        )
        types.append(figures)
    types.sort(key=lambda each: (-each.delivered.last_hour * 60 - each.waiting - each.dead, each.event_type))
    return EventTypes(types[:MOST_TYPES], of_deliveries, of_waiting, of_dead)


def _sample(rows: int, seconds: float | None = None) -> SampledRows:
    """``seconds`` is the age of the oldest row in it; a sample that is whole covers the hour."""
    whole = rows < MOST_SAMPLED
    return SampledRows(rows, whole, _HOUR if whole or seconds is None else min(max(seconds, 1.0), _HOUR))


def _pace(minute: int, hour: int, sample: SampledRows) -> EventPace:
    return EventPace(minute * _MINUTE / min(_MINUTE, sample.seconds), hour * _MINUTE / sample.seconds)
