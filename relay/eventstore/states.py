"""The subscriptions as an operator sees them, whether their consumers run or not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from relay.eventstore.database import Connection, Database, Row, execute
from relay.eventstore.groups import slot_positions
from relay.eventstore.read import Reader
from relay.eventstore.statements import EventStoreStatements
from relay.postgres.sql import PARTITIONS_AT_ONCE

_ROWS_AT_ONCE: Final = 1000
"""Rows of the feed that are looked up at once, where the first event after a position is gone."""


class SubscriptionState(NamedTuple):
    """A subscription, or of one that is consumed in parts the slots that one instance or none holds."""

    name: str
    position: int
    """The checkpoint; of several slots, the lowest one."""
    active: bool
    """Some instance holds the lease."""
    updated_at: datetime
    holder: UUID | None
    """The instance that holds the lease, or held it last."""
    lag_events: int
    """Events of all tenants and types after the position; counted up to 100,000."""
    lag_seconds: float
    """The age of the oldest of them; 0.0 without one."""
    part: tuple[int, int] | None = None
    """Which part of how many the holder consumes; None where no instance holds the slots, or there are no parts."""
    slots: int | None = None
    """How many of the 256 slots; None for a subscription that is not consumed in parts."""
    parked: int = 0
    """Streams that the subscription, with all its parts, has set aside."""


async def read_states(database: Database, statements: EventStoreStatements, reader: Reader) -> list[SubscriptionState]:
    """All subscriptions, by their names as they are stored."""

    async def read(connection: Connection) -> list[SubscriptionState]:
        horizon = await reader.horizon(connection)
        return await states_of(connection, statements, horizon.settled)

    return await database.run("list subscriptions", read)


async def states_of(connection: Connection, statements: EventStoreStatements, horizon: int) -> list[SubscriptionState]:
    """The same over a connection of the caller's; ``horizon`` is how far a reader may read."""
    rows = await execute(connection, statements.text("eventstore/subscriptions:list"))
    is_any_grouped = any(row[1] for row in rows)
    groups = await _groups(connection, statements) if is_any_grouped else []
    states: list[SubscriptionState] = []
    for name, is_grouped, position, active, updated_at, holder in rows:
        if is_grouped:
            for state, slots in groups:
                if state.name == name:
                    states.append(await _with_lag(connection, statements, state, horizon, slots))
        else:
            state = SubscriptionState(name, position, active, updated_at, holder, 0, 0.0)
            states.append(await _with_lag(connection, statements, state, horizon, None))
    parked: dict[str, int] = dict(await execute(connection, statements.text("eventstore/parking:count")))
    return [state._replace(parked=parked.get(state.name, 0)) for state in states]


async def _groups(connection: Connection, statements: EventStoreStatements) -> list[tuple[SubscriptionState, str]]:
    """Of every group, its members and its slots without one, each with the positions of the slots."""
    rows = await execute(connection, statements.text("eventstore/subscription_groups:list"))
    groups = []
    for (name, holder, part, parts, active, updated_at), members in groupby(rows, key=lambda row: row[2:]):
        positions = {slot: position for slot, position, *_ in members}
        of = None if part is None else (part, parts)
        state = SubscriptionState(name, min(positions.values()), active, updated_at, holder, 0, 0.0, of, len(positions))
        groups.append((state, slot_positions(positions)))
    return groups


async def _with_lag(
    connection: Connection,
    statements: EventStoreStatements,
    state: SubscriptionState,
    horizon: int,
    slots: str | None,
) -> SubscriptionState:
    """The state with what is after its position, counted and measured without decoding an event."""
    tags = () if slots is None else ("part",)
    values: dict[str, object] = {"after": state.position, "horizon": horizon, "slots": slots}
    events = (await execute(connection, statements.text("eventstore/subscriptions:unread", *tags), values))[0][0]
    if not events:
        return state
    page = statements.text("eventstore/read:feed_page", *tags)
    values |= {"types": None, "tenants": None, "limit": 1}
    while rows := await execute(connection, page, values):
        age = await _age(connection, statements, rows)
        if age is not None:
            return state._replace(lag_events=events, lag_seconds=max(age, 0.0))
        values |= {"after": rows[-1][0], "limit": _ROWS_AT_ONCE}  # the event is gone, and maybe many after it
    return state._replace(lag_events=events)


async def _age(connection: Connection, statements: EventStoreStatements, rows: Sequence[Row]) -> float | None:
    """Seconds since the oldest of the events was written; None where none of them exists."""
    tenants = list({row[1] for row in rows})
    ages = []
    for start in range(0, len(tenants), PARTITIONS_AT_ONCE):
        values = {"tenants": tenants[start : start + PARTITIONS_AT_ONCE], "positions": [row[0] for row in rows]}
        ages += await execute(connection, statements.text("eventstore/subscriptions:age"), values)
    return max((age for (age,) in ages if age is not None), default=None)
