"""Rows that the database refuses to change: set aside, named, and tried again (``relay.core.blame`` says how).

A refused row fails the statement that it is in. Settle and renewal find it by sending the statement again in quarters.
Claims and reaps name no rows: they are repeated with half of the limit, and with a limit of 1 the error says which row
it is. That row is left out of later statements for a while, so that the rows behind it go on. From ``MOST_ALIKE`` such
rows on, claims go past the next ones instead (``relay.core.storage.OutboxStorage.pass_over``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from relay.core.blame import MOST_ALIKE, Party, Trial
from relay.core.errors import StorageError
from relay.core.event import EventId
from relay.core.heartbeats import REFUSES
from relay.core.telemetry import Telemetry

logger = logging.getLogger(__name__)

_PAUSE = 10.0  # seconds between two lines of one kind
_FIRST_EXCLUSION = 5.0  # seconds for which a refused row is left out; doubled each time
_LONGEST_EXCLUSION = 300.0
_FRESH_CONTROLS = 30.0  # seconds for which rows are left out that failed with all others, until one goes through
_MOST_EXCLUDED = 1000  # rows; reaps go past further ones long before
_ROUND = 30.0  # seconds until rows that claims have gone past are tried again, at most
_LONG = 3.0  # seconds without a row that goes through, after which the state is 3 before the fault is known

_CORRECT = "Correct the row, or the constraint or trigger that refuses it."
_LINES = {
    "settle": "the database refuses to settle event %s: %s. It is set aside and tried again; the other events go on. ",
    "renew": "the database refuses to renew the lease of event %s: %s. The other events keep theirs. ",
    "claim": "the database refuses to claim event %s: %s. It is left out and tried again later; the others go on, but "
    "for those behind it in its key where ORDERING=key. ",
    "reap": "the database refuses to reap event %s: %s. It is left out and tried again later; the others go on. ",
    "give up": "the database keeps refusing to settle event %s: %s. Its lease will expire, and the event will be sent "
    "again. ",
}


def growing_pause(tries: int, first: float, longest: float = float("inf")) -> float:
    """Seconds to wait after that many tries: ``first`` after one, doubled for each further one, ``longest`` at most."""
    return min(first * 2.0 ** min(tries - 1, 32), longest)


class RefusedRows:
    """Which rows the database refuses, of all loops: for log, metric and /readyz."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._rows: dict[tuple[str, EventId], tuple[str, float]] = {}
        """By statement: why, and until when it counts."""
        self._said_at: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def name(self, doing: str, event_id: EventId, error: StorageError, until: float, rows: int = 1) -> None:
        """The database refuses to do this to a row, or to that many, which is tried again at ``until``."""
        now = self._clock()
        self._rows = {row: entry for row, entry in self._rows.items() if entry[1] > now}
        self._rows[doing, event_id] = (str(error), until + _PAUSE)
        for _ in range(rows):
            self._telemetry.row_refused(doing)
        action = "renewal_refused" if doing == "renew" else f"{doing}_refused"
        self._say(action, event_id, _LINES[doing] + _CORRECT, error)

    def forget(self, doing: str, event_id: EventId) -> None:
        """The row is written, or no longer this relay's."""
        self._rows.pop((doing, event_id), None)

    def degraded(self) -> Mapping[str, str]:
        """The part of ``/readyz`` about them; empty while there are none."""
        now = self._clock()
        rows = [(doing, event_id, why) for (doing, event_id), (why, until) in self._rows.items() if until > now]
        if not rows:
            return {}
        doing, event_id, why = rows[0]
        more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
        return {"refused_rows": f"{REFUSES}{doing} event {event_id}{more}: {why}"}

    def left_to_its_lease(self, event_id: EventId, error: StorageError, lease_ends: float) -> None:
        """A verdict was refused too often: until its lease ends, the event waits for nothing else."""
        if len(self._rows) < _MOST_EXCLUDED:
            self._rows["settle", event_id] = (str(error), lease_ends + _PAUSE)
        self._say("settle_given_up", event_id, _LINES["give up"] + _CORRECT, error)

    def locked(self, event_id: EventId, events: int) -> None:
        """Another session has locked rows: the verdicts on that many events wait, ``event_id`` is one of them."""
        self._say(
            "settle_locked",
            event_id,
            "another session has locked event %s (%d events in all). They are settled once they are unlocked; the "
            "other events go on. Sessions, oldest transaction first: SELECT pid, state, query FROM pg_stat_activity "
            "WHERE xact_start IS NOT NULL ORDER BY xact_start.",
            events,
        )

    def _say(self, action: str, event_id: EventId, message: str, reason: StorageError | int) -> None:
        """One line of a kind in ten seconds, with the number since the last."""
        self._count[action] = self._count.get(action, 0) + 1
        now = self._clock()
        if now - self._said_at.get(action, float("-inf")) >= _PAUSE:
            events = self._count.pop(action)
            self._said_at[action] = now
            logger.error(message, event_id, reason, extra={"action": action, "event_id": event_id, "events": events})


class Refusals:
    """The trial of one loop's statements, and the rows that it found to be to blame."""

    def __init__(self, doing: str, rows: RefusedRows, clock: Callable[[], float]) -> None:
        """``doing``: ``claim``, ``settle``, ``renew`` or ``reap``."""
        self._doing = doing
        self._rows = rows
        self._clock = clock
        self._trial: Trial[EventId] = Trial()
        self._blamed: dict[EventId, float] = {}
        """Rows that were refused while others went through, and when last."""
        self._doubtful: set[EventId] = set()
        """Rows that failed while no other went through, so that it was the database, or they are many."""
        self._probable: set[EventId] = set()
        """Of these, those that others went through after: to blame when they fail once more."""
        self._named: set[EventId] = set()
        """Suspects that were named since they failed last."""
        self._failing_since: float | None = None

    def blames(self, event_id: EventId) -> bool:
        """Whether this row is known to be to blame."""
        return event_id in self._blamed

    def statement_failed(self) -> bool:
        """A statement for several rows failed. Returns whether that has gone on for so long that it must be said."""
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        return now - self._failing_since >= _LONG

    def failed(self, event_id: EventId, error: StorageError, until: float) -> Party:
        """A statement for this row alone failed; the row is tried again at ``until``."""
        if event_id in self._blamed or event_id in self._probable:
            self._blame(event_id, error, until)
            return Party.ROW
        self._named.discard(event_id)
        fault = self._trial.failed(event_id, error)
        if fault is Party.DATABASE:
            self._doubtful |= self._trial.clear().keys()
        return fault

    def went_through(self) -> None:
        """Rows were written: those that failed before are to blame."""
        self._failing_since = None
        self._probable |= self._doubtful
        self._doubtful.clear()
        if self._trial.failed_rows:
            for event_id, error in self._trial.went_through().items():
                self._blame(event_id, error, self._clock())

    def passed(self, errors: Sequence[StorageError]) -> None:
        """Rows that claims have gone past failed once more: the last one is named for all."""
        error = errors[-1]
        if error.event_id is not None:
            self._rows.name(self._doing, EventId(error.event_id), error, self._clock() + _ROUND, len(errors))

    def without_control(self) -> StorageError | None:
        """No other row is there to try: the failed rows are named. Returns the error where it is the database."""
        self._failing_since = None
        if not self._trial.failed_rows:
            return None
        if self._trial.without_control() is Party.DATABASE:
            return self._trial.last_error
        for event_id, error in self._trial.failed_rows.items():
            if event_id not in self._named:
                self._rows.name(self._doing, event_id, error, self._clock())
        self._named = set(self._trial.failed_rows)
        return None

    def clear(self) -> None:
        """Nothing is left that failed."""
        self._failing_since = None
        self._trial.clear()

    def written(self, event_id: EventId) -> None:
        """The row is no longer refused, or no longer this relay's."""
        self._trial.failed_rows.pop(event_id, None)
        self._blamed.pop(event_id, None)
        self._rows.forget(self._doing, event_id)

    def _blame(self, event_id: EventId, error: StorageError, until: float) -> None:
        now = self._clock()
        self._probable.discard(event_id)
        if len(self._probable) > _MOST_EXCLUDED:
            self._probable.clear()
        if len(self._blamed) >= _MOST_EXCLUDED:
            self._blamed = {row: at for row, at in self._blamed.items() if at + 2 * _LONGEST_EXCLUSION > now}
        self._blamed[event_id] = now
        self._rows.name(self._doing, event_id, error, until)


class Exclusions:
    """Rows that the database refuses to claim, or to reap: left out of these statements, each time for longer."""

    def __init__(
        self,
        doing: str,
        rows: RefusedRows,
        clock: Callable[[], float],
        pass_over: Callable[[EventId], None] | None = None,
    ) -> None:
        """``doing``: ``claim`` or ``reap``. ``pass_over`` takes the rows that are too many to be left out."""
        self._clock = clock
        self._pass_over = pass_over
        self._most = MOST_ALIKE if pass_over else _MOST_EXCLUDED
        self._refusals = Refusals(doing, rows, clock)
        self._rows: dict[EventId, tuple[int, float]] = {}
        """How often each was refused while others went through, and until when it is left out."""
        self._extended = False
        """Whether no row has gone through since so many failed that it is the database."""

    def ids(self) -> list[EventId]:
        """The rows to leave out now."""
        now = self._clock()
        return [event_id for event_id, (_, until) in self._rows.items() if until > now]

    def narrowed(self) -> bool:
        """A statement failed and is sent again for fewer rows; returns whether that has gone on for long."""
        return self._refusals.statement_failed()

    def add(self, error: StorageError) -> bool:
        """Leave out the row that ``error`` names, and try others.

        False when it names none, when too many are left out already, or when it is the database.
        """
        now = self._clock()
        self._rows = {row: entry for row, entry in self._rows.items() if entry[1] + _LONGEST_EXCLUSION > now}
        if error.event_id is None:
            return False
        event_id = EventId(error.event_id)
        if len(self._rows) >= self._most and event_id not in self._rows:
            return self._go_past(event_id, error)
        tries = self._rows.get(event_id, (0, now))[0]
        if self._refusals.blames(event_id):
            tries += 1
        until = now + growing_pause(max(tries, 1), _FIRST_EXCLUSION, _LONGEST_EXCLUSION)
        self._rows[event_id] = (tries, until)
        if self._refusals.failed(event_id, error, until) is not Party.DATABASE:
            return True
        self._extended = True  # so that other rows are the next controls, however many fail
        longer = now + _FRESH_CONTROLS
        self._rows = {row: (tries, max(until, longer)) for row, (tries, until) in self._rows.items()}
        return False

    def _go_past(self, event_id: EventId, error: StorageError) -> bool:
        """Go past one row more. False where that cannot be, or where it is the database: then the head stays."""
        if self._pass_over is None or self._extended:
            return False
        if self._refusals.failed(event_id, error, self._clock()) is Party.DATABASE:
            self._extended = True
            return False
        self._pass_over(event_id)
        return True

    def passed(self, errors: Sequence[StorageError]) -> None:
        """Rows that the statements have gone past failed once more."""
        if errors:
            self._refusals.passed(errors)

    def went_through(self) -> None:
        """Rows were written."""
        self._refusals.went_through()
        if self._extended:
            self._extended = False
            soon = self._clock() + _FIRST_EXCLUSION
            self._rows = {row: (tries, min(until, soon)) for row, (tries, until) in self._rows.items()}

    def nothing_left(self) -> StorageError | None:
        """A statement found no other row. Returns the error where the database is to blame."""
        if not self.ids():
            self._refusals.clear()
        return self._refusals.without_control()
