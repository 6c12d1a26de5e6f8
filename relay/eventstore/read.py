"""Reads streams and the events of all tenants.

Reading over all tenants goes in three steps, each a statement with a snapshot of its own, in this order: the horizon
(how far everything has settled), the page (positions up to it, from the narrow feed), the events themselves, a few
tenants at a time and with the tenants as constants, so that each statement plans and locks a few partitions only
(``relay.eventstore.partitions``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

from relay.core.checkpoint import START, Checkpoint
from relay.core.errors import ConfigError, EventError
from relay.eventstore.checkpoints import Horizon, last_up_to, look
from relay.eventstore.database import Connection, Database, Row, execute
from relay.eventstore.decoding import decoded, fetch_events
from relay.eventstore.errors import UndecodableEvent
from relay.eventstore.model import LARGEST_POSITION, LARGEST_VERSION, StoredEvent, checked_id, checked_position
from relay.eventstore.partitions import TenantPartitions
from relay.eventstore.sessions import named
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.store_part import Id, StorePart, check_limit

_TENANTS_WITHOUT_FEED: Final = 16  # up to this number is read from their partitions instead of by the feed
_MOST_LOOKED_AT: Final = 10_000
"""Events that one page looks at, whether its filter passes them or not."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Filters on the events of all tenants; None means no filter."""

    tenants: tuple[UUID, ...] | None = None
    types: tuple[str, ...] | None = None
    slots: str | None = None
    """Of a part of a subscription: the position of each slot (``relay.eventstore.groups``)."""

    @classmethod
    def of(cls, tenants: Iterable[Id] | None, types: Iterable[str] | None) -> EventFilter:
        """The filter of a caller's arguments. Raises EventError or ConfigError, naming the argument."""
        if isinstance(types, str):
            raise ConfigError(f"types: {types!r} is a single string; pass a list of types")
        return cls(
            None if tenants is None else tuple(dict.fromkeys(checked_id("tenants", one) for one in tenants)),
            None if types is None else tuple(types),
        )


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events, and the position that the reader has reached."""

    events: list[StoredEvent]
    set_aside: tuple[UndecodableEvent, ...]
    """Of the rows between them that cannot be decoded."""
    checkpoint: Checkpoint
    """Where the next page begins: every event up to it was delivered or filtered out."""
    head: int
    """How far a reader may read now."""
    newest: int
    more: bool
    """Whether a bound has ended the page before that."""
    waiting: bool
    """Whether an open transaction holds back positions."""
    read_at: datetime
    """The database's clock."""


class EventsRead(list[StoredEvent]):
    """Events, and how far their reader came."""

    def __init__(self, page: EventPage) -> None:
        super().__init__(page.events)
        self.checkpoint = page.checkpoint
        """From where to continue, also past events that the filter left out."""
        self.position = page.checkpoint.position
        self.head = page.head
        """How far a reader could read."""
        self.more = page.more


class Reader:
    """Reads pages of all tenants for one store, and remembers its horizon."""

    def __init__(self, database: Database, statements: EventStoreStatements) -> None:
        self._database = database
        self._statements = statements
        self._partitions = TenantPartitions(statements)
        self._remembered: tuple[Connection, Horizon] | None = None
        """The highest horizon, and the connection that has returned it."""

    async def horizon(self, connection: Connection, after: Checkpoint = START) -> Horizon:
        """How far a reader may read. Raises PositionsWentBack when the event at ``after`` is another one.

        The database's answer may go back: a writer that looked up its registration long ago and registers now is below
        what was read already. It draws its positions later, above the newest one of that time, so nothing is skipped
        by the higher horizon. That holds for one life of one server: a standby that takes over may have lost what made
        the horizon high. So what is remembered ends with its connection, and behind a pooler with the server.
        """
        horizon = await look(connection, self._statements, after)
        if self._remembered is not None:
            source, highest = self._remembered
            lives_on = not source.closed and highest.server == horizon.server
            if lives_on and horizon.settled < highest.settled <= horizon.newest:
                return horizon._replace(settled=highest.settled)
        self._remembered = connection, horizon
        return horizon

    async def look(self, after: Checkpoint = START) -> Horizon:
        """As ``horizon``, on a connection of the store's."""
        return await self._database.run("read the end of the store", lambda connection: self.horizon(connection, after))

    async def holders(self, horizon: int) -> str:
        """The sessions whose open transactions keep the horizon there, for an operator."""
        holders = self._statements.text("eventstore/read:holders")
        rows = await self._database.rows("look for open appends", holders, {"horizon": horizon})
        return named(rows) or "a transaction that has ended meanwhile"

    async def checkpoint(self, position: int) -> Checkpoint:
        """The checkpoint of a position alone. Raises PositionsWentBack for one above the newest."""

        async def look_up(connection: Connection) -> Checkpoint:
            await self.horizon(connection, Checkpoint(position))
            return await last_up_to(connection, self._statements, position)

        return await self._database.run("look up a position", look_up)

    async def page(
        self,
        after: Checkpoint,
        limit: int,
        event_filter: EventFilter,
        *,
        passes: Callable[[UndecodableEvent], bool] | None = None,
        until: int = LARGEST_POSITION,
    ) -> EventPage:
        """The next events of all tenants up to a position, in the order of their positions.

        A page is bounded in events, in bytes, and in events that its filter has looked at: it may have no event and say
        that there is more. The feed may name events that are gone: of a partly dropped tenant, or that were deleted. A
        page of nothing else is passed over. A row that cannot be decoded ends the page, and raises ``UndecodableEvent``
        where the page begins with it; one that ``passes`` accepts is passed over and listed. Raises
        ``PositionsWentBack``.
        """

        async def read(connection: Connection) -> EventPage:
            horizon = await self.horizon(connection, after)
            position, end = after.position, min(horizon.settled, until)
            while True:
                read = await self._rows(connection, position, end, limit, event_filter)
                position, rows = read.position, events_before(read.rows, passes)
                events = [one for one in rows if isinstance(one, StoredEvent)]
                faults = tuple(one for one in rows if isinstance(one, UndecodableEvent))
                if len(rows) < len(read.rows):
                    position = rows[-1].sequence_num
                if events or faults or not read.full:
                    reached = await self._reached(connection, after, position, events)
                    head, newest, read_at = horizon.settled, horizon.newest, horizon.read_at
                    return EventPage(events, faults, reached, head, newest, position < end, head < newest, read_at)

        return await self._database.run("read events", read)

    async def _reached(
        self, connection: Connection, after: Checkpoint, position: int, events: Sequence[StoredEvent]
    ) -> Checkpoint:
        """The checkpoint of a page that has come to a position: of the last event there that this reader may see."""
        if events and events[-1].sequence_num == position:
            return events[-1].checkpoint
        if position == after.position:
            return after
        last = events[-1].checkpoint if events else after
        reached = await last_up_to(connection, self._statements, position)
        return reached if reached.position > last.position else last

    async def _rows(
        self, connection: Connection, after: int, end: int, limit: int, event_filter: EventFilter
    ) -> _RowsRead:
        """The next events up to a position, as far as the bounds of a page go."""
        types = None if event_filter.types is None else list(event_filter.types)
        values: dict[str, object] = {"after": after, "limit": limit, "types": types}
        if event_filter.slots is not None:
            values["slots"] = event_filter.slots
        tenants = event_filter.tenants
        values["tenants"] = None if tenants is None else list(tenants)
        if tenants is None or len(tenants) > _TENANTS_WITHOUT_FEED:
            tenants = None
        end = await self._window(connection, tenants, values, end, event_filter)
        values["horizon"] = end
        if tenants is None:
            rows = await execute(connection, _text(self._statements, "feed_page", values), values)
        else:
            rows = (await _from_partitions(connection, self._statements, tenants, values))[:limit]
        found, last = await self._partitions.fetch(connection, rows, after, values)
        full = len(rows) == limit or bool(rows and last < rows[-1][0])
        return _RowsRead(decoded(found), last if full else max(after, end), full)

    async def _window(
        self,
        connection: Connection,
        tenants: Sequence[UUID] | None,
        values: dict[str, object],
        end: int,
        event_filter: EventFilter,
    ) -> int:
        """How far a page may look: what a filter leaves out is read too, and a statement must end in time."""
        if event_filter.types is None and event_filter.slots is None and (tenants or event_filter.tenants is None):
            return end
        values = values | {"rows": _MOST_LOOKED_AT - 1}
        if tenants is None:
            rows = await execute(connection, self._statements.text("eventstore/read:feed_window"), values)
        else:
            rows = []
            for tenant in tenants:
                window = self._statements.text("eventstore/read:tenant_window")
                rows += await execute(connection, window, values | {"tenant": tenant})
        return min([end, *(int(row[0]) for row in rows)])


class _RowsRead(NamedTuple):
    """What one look into the store has found."""

    rows: list[StoredEvent | UndecodableEvent]
    position: int
    """Up to which everything was found."""
    full: bool
    """The bound on events or bytes has ended it."""


def events_before(
    rows: list[StoredEvent | UndecodableEvent], passes: Callable[[UndecodableEvent], bool] | None = None
) -> list[StoredEvent | UndecodableEvent]:
    """What is before the first undecodable row that may not be passed; raises its error where that is nothing."""
    for number, row in enumerate(rows):
        if isinstance(row, UndecodableEvent) and not (passes and passes(row)):
            if number == 0:
                raise row
            return rows[:number]
    return rows


class ReadPart(StorePart):
    """Reading one stream, and all of them."""

    def __init__(self, database: Database, statements: EventStoreStatements, tenant: UUID | None = None) -> None:
        super().__init__(database, statements, tenant)
        self._reader = Reader(database, statements)

    async def read_stream(
        self,
        tenant_id: Id,
        stream_id: Id,
        from_version: int = 1,
        to_version: int | None = None,
        limit: int | None = None,
        *,
        backward: bool = False,
    ) -> list[StoredEvent]:
        """One stream's events by version, both ends included, newest first if ``backward``; none: an empty list.

        Raises ``UndecodableEvent`` when a row of them cannot be decoded.
        """
        check_limit(limit)
        stream = checked_id("stream_id", stream_id)
        values = {
            "tenant": checked_id("tenant_id", tenant_id),
            "stream": stream,
            "from_version": _within_type(from_version),
            "to_version": LARGEST_VERSION if to_version is None else _within_type(to_version),
            "limit": limit,
        }
        sql = self._statements.text("eventstore/read:read_stream", "backward" if backward else "forward")
        doing = f"read stream {stream}"
        rows = decoded(await self._database.run(doing, lambda connection: fetch_events(connection, sql, values)))
        events = [row for row in rows if isinstance(row, StoredEvent)]
        if len(events) < len(rows):
            raise next(row for row in rows if isinstance(row, UndecodableEvent))
        return events

    async def read_all(
        self,
        after: int | Checkpoint = 0,
        limit: int = 1000,
        tenants: Iterable[Id] | None = None,
        types: Iterable[str] | None = None,
        *,
        until: int | None = None,
    ) -> EventsRead:
        """The next events of all tenants after a position, up to ``until``, in the order of positions.

        The list says how far it came: pass on its ``checkpoint``, and every event is read once, because an event that
        commits later has a position above all those returned. It is empty only where the end is reached; 16 MiB of
        bodies end it before ``limit``. ``None`` means all tenants or types. A row that cannot be decoded ends the
        result, and raises ``UndecodableEvent`` when it is the first one. Raises ``PositionsWentBack`` for a position
        beyond the newest one, and for a checkpoint whose event is not the one at its position. A standby that has not
        received the position yet returns no event.
        """
        check_limit(limit)
        event_filter, reached = EventFilter.of(tenants, types), checked_after(after)
        end = LARGEST_POSITION if until is None else checked_position("until", until)
        while True:
            page = await self._reader.page(reached, limit, event_filter, until=end)
            if page.events or not page.more:
                return EventsRead(page)
            reached = page.checkpoint


def checked_after(after: object) -> Checkpoint:
    """The checkpoint from which to continue. Raises EventError for anything but a position or a Checkpoint."""
    if isinstance(after, Checkpoint):
        return after
    if isinstance(after, bool) or not isinstance(after, int):
        raise EventError(f"after: {after!r}; pass a position or a Checkpoint")
    return Checkpoint(min(max(after, 0), LARGEST_POSITION))


def _within_type(version: int) -> int:
    """The version, or the nearest one that the column can hold: no event has a version beyond it."""
    return min(max(version, -1), LARGEST_VERSION)


def _text(statements: EventStoreStatements, name: str, values: dict[str, object]) -> LiteralString:
    """The statement, for all streams or for those of some slots."""
    return statements.text(f"eventstore/read:{name}", *(["part"] if "slots" in values else []))


async def _from_partitions(
    connection: Connection, statements: EventStoreStatements, tenants: Sequence[UUID], values: dict[str, object]
) -> list[Row]:
    """Pages of a few tenants, merged. All see everything up to the horizon, which was taken before."""
    statement = _text(statements, "tenant_page", values)
    rows: list[Row] = []
    for tenant_id in tenants:
        rows += await execute(connection, statement, values | {"tenant": tenant_id})
    return sorted(rows, key=lambda row: int(row[0]))
