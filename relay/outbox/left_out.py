"""What claims leave out: events that operators paused, those whose destinations do not answer, and refused types.

Where a header leads events of one type to several destinations, those for one of them can be left out (``Apart``). A
claim without such a destination is the same statement as ever.

All of them are due and stay due, and wait in any number, for hours: so claims begin behind them, at the head
(``relay.outbox.head``), which remembers from where on each thing was left out. Rows that one claim leaves out (ids
that the database refuses, destinations that are slow for a moment) are remembered in the same way. Only what operators
paused is not late: the lag leaves out that one alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from psycopg.errors import QueryCanceled

from relay.core.event import EventId
from relay.core.pause import Pause, PauseScope, PauseTarget
from relay.core.places import Apart, Flow
from relay.core.storage import Rest
from relay.outbox.head import Head, Thing
from relay.outbox.pauses import read_for_claims
from relay.outbox.span import ClaimSpan, Place
from relay.outbox.waiting_rows import Look, Looks, Walk
from relay.postgres.connect import Connection
from relay.postgres.pipeline import one_transaction
from relay.postgres.sql import TableName, statement

_ROWS: Final = 10_000  # of one look, where rows are left out; some milliseconds
_WHOLE: Final = "type"
_IN_PART: Final = "part"
_APART: Final = {False: "destination", True: "part of destination"}
_SLOW: Final = "slow"
_ROW: Final = "row"


class PausedRows:
    """What claims leave out. Claims read it; the loops that read the pauses and look behind the head write it."""

    def __init__(self, table: TableName, clock: Callable[[], float], rows_per_look: int = _ROWS) -> None:
        self._rows_per_look = rows_per_look
        self._outbox = table
        self._bounds = statement("outbox/head:bounds", table)
        self.head = Head(clock)
        self.looks = Looks(self.head, clock)
        self.pauses: Sequence[Pause] = ()
        self._away: Sequence[str] = ()
        """Event types whose destinations do not answer."""
        self._away_in_part: Sequence[str] = ()
        """Those of which only one of several does not."""
        self.apart: dict[Apart, bool] = {}
        """Destinations that do not answer and get their events by a header; whether another one of these has them."""
        self._apart: dict[str, Any] = apart_parameters({})
        self._refused: Sequence[str] = ()
        """Event types of which the database refuses every event (``relay.outbox.passed_rows``)."""
        self._besides_refused: list[str] = []
        """As ``patterns``, without those of the types that the database refuses."""
        self._paused: list[str] = []
        """What LIKE matches in the event types that operators paused."""
        self.patterns: list[str] = []
        """What LIKE matches in all event types that claims leave out; empty while there is none."""
        self.in_part: list[str] = []
        """Likewise in those of which they leave out only what some destinations have acknowledged."""
        self._things: frozenset[Thing] = frozenset()
        self._of_one_claim: frozenset[Thing] = frozenset()

    @property
    def everything(self) -> bool:
        """Whether the whole outbox is paused, so that no claim is needed."""
        return any(pause.target.scope is PauseScope.ALL for pause in self.pauses)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of claims that leave event types out; empty while they leave out none."""
        return self._tags(self.patterns)

    def _tags(self, patterns: Sequence[str]) -> tuple[str, ...]:
        in_part = ("in_part",) if self.in_part or any(self.apart.values()) else ()
        apart = ("apart",) if self.apart else ()
        return ("paused", *in_part, *apart) if patterns or in_part or apart else ()

    def parameters(self) -> dict[str, Any]:
        """The parameters of statements with these tags."""
        return {"paused": self.patterns, "in_part": self.in_part, **self._apart}

    def of_chosen(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Tags and parameters of claims of chosen rows: they may be of refused types."""
        patterns = self._besides_refused
        return self._tags(patterns), {**self.parameters(), "paused": patterns}

    def of_the_lag(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Tags and parameters of statements about what is late: rows that operators paused are not."""
        paused = {(_WHOLE, pattern) for pattern in self._paused}
        due, created = self.head.late_from(self._things - paused)
        parameters = {"due_from": due, "created_from": created, "paused": self._paused}
        return (("paused",) if self._paused else ()), parameters

    async def read(self, connection: Connection) -> Sequence[Pause]:
        """Read the pauses in force; claims that are sent from now on obey them."""
        self.set(await read_for_claims(connection, self._outbox))
        return self.pauses

    def set(self, pauses: Sequence[Pause]) -> None:
        """Take over the pauses in force."""
        self.pauses = pauses
        self._change()

    def leave_out(self, flows: Sequence[Flow], in_part: Sequence[Flow] = ()) -> None:
        """Take over what waits for destinations that do not answer, and of what one of several does not."""
        self._away = [one for one in flows if isinstance(one, str)]
        self._away_in_part = [one for one in in_part if isinstance(one, str)]
        apart = [(one, False) for one in flows if isinstance(one, Apart)]
        self._change(dict([*((one, True) for one in in_part if isinstance(one, Apart)), *apart]))

    def refuse(self, event_types: Sequence[str]) -> None:
        """Take over the event types of which the database refuses every event."""
        self._refused = event_types
        self._change()

    def next_claim(self, excluded: Sequence[EventId], without: Sequence[str]) -> None:
        """The next claim leaves out these rows and destinations, too."""
        of_one_claim = frozenset((*((_ROW, one) for one in excluded), *((_SLOW, one) for one in without)))
        if of_one_claim != self._of_one_claim:
            self._of_one_claim = of_one_claim
            self.head.leave_out(self._things | of_one_claim)

    def _change(self, apart: dict[Apart, bool] | None = None) -> None:
        self._paused = sorted({pause.target.pattern for pause in self.pauses})
        self._besides_refused = sorted({*map(_pattern, self._away), *self._paused})
        patterns = sorted({*self._besides_refused, *map(_pattern, self._refused)})
        in_part = sorted(map(_pattern, self._away_in_part))
        apart = self.apart if apart is None else apart
        if (patterns, in_part, apart) == (self.patterns, self.in_part, self.apart):
            return
        self.patterns, self.in_part = patterns, in_part
        if apart != self.apart:
            self.apart, self._apart = apart, apart_parameters(apart)
        things = [*((_WHOLE, one) for one in patterns), *((_IN_PART, one) for one in in_part)]
        self._things = frozenset((*things, *(_apart_thing(*one) for one in apart.items())))
        self.head.leave_out(self._things | self._of_one_claim)

    def released(self, event_type: str, first: Place, last: Place) -> None:
        """This relay released rows of this type, at places from ``first`` to ``last``."""
        self.head.released(first, last, self._leaving_out(event_type))

    def _leaving_out(self, event_type: str) -> Iterator[Thing]:
        pattern = _pattern(event_type)
        yield from ((kind, pattern) for kind in (_WHOLE, _IN_PART))
        yield from (_apart_thing(*one) for one in self.apart.items() if one[0].event_type == event_type)
        yield from ((_WHOLE, pause.target.pattern) for pause in self.pauses if pause.target.holds(event_type))

    async def find(self, connection: Connection) -> None:
        """Find the head, before the first claim."""
        await self.looks.find(self._walk_over(connection))

    async def look(self, connection: Connection) -> Rest:
        """See what is cheap, move the head, and look on behind it."""
        return await self.looks.look(self._walk_over(connection))

    def _walk_over(self, connection: Connection) -> Walk:
        async def walk(first: Place, end: Place, timeout: float) -> Look | None:
            return await self._look(connection, ClaimSpan(first, end, 0), timeout)

        return walk

    async def _look(self, connection: Connection, span: ClaimSpan, timeout: float) -> Look | None:
        rows = self._rows_per_look if self.tags else 1
        values = {**span.parameters(), **self.parameters(), "margin": self.head.margin.seconds, "rows": rows}
        cursor = connection.cursor(binary=True)
        try:
            async with one_transaction(connection):
                await connection.execute(self._bounds, {"timeout": str(round(timeout * 1000))})
                await cursor.execute(statement("outbox/head:look", self._outbox, tags=self.tags), values)
            [(at, seconds, free_due, free_created, end_due, end_created)] = await cursor.fetchall()
        except QueryCanceled:
            return None
        free = None if free_due is None else (free_due, free_created)
        return Look(at, seconds, free, None if end_created is None else (end_due, end_created))


def _pattern(event_type: str) -> str:
    return PauseTarget(PauseScope.TYPE, event_type).pattern


def _apart_thing(apart: Apart, in_part: bool) -> Thing:
    return _APART[in_part], repr(apart)


def apart_parameters(apart: Mapping[Apart, bool]) -> dict[str, Any]:
    """The parameters of ``outbox/claim:free``."""
    entries = [
        {
            "of_type": one.event_type,
            "part": in_part,
            "start": one.start,
            "gaps": one.headers,
            "texts": one.texts,
            "pattern": one.pattern,
            "earlier": one.earlier,
        }
        for one, in_part in apart.items()
    ]
    return {"apart": json.dumps(entries), "apart_types": sorted({one.event_type for one in apart})}
