"""Rows that the database refuses to change: how they are isolated, distinguished from a failing database, and reported.

A refused row fails the statement that it is in. Settle and renewal find it by sending the statement again in quarters.
Claims and reaps name no rows: they are repeated with half of the limit, and with a limit of 1 the error says which row
it is. That row is left out of later statements for a while, so that the rows behind it go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from relay.core.errors import StorageError
from relay.core.event import EventId

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE = 10.0  # seconds between two lines of one kind
_FIRST_EXCLUSION = 5.0  # seconds for which a refused row is left out; doubled each time
_LONGEST_EXCLUSION = 300.0
_MOST_EXCLUDED = 1000  # rows; every statement carries their ids


def quarters(items: Sequence[T]) -> list[Sequence[T]]:
    """Up to four parts that together are ``items``, none empty; each is smaller than a list of two or more.

    Quarters find one refused row among a thousand in as many statements as halves do, and where every second row is
    refused they take two thirds.
    """
    size = -(-len(items) // 4)
    return [items[start : start + size] for start in range(0, len(items), size)]


def growing_pause(tries: int, first: float, longest: float = float("inf")) -> float:
    """Seconds to wait after that many tries: ``first`` after one, doubled for each further one, ``longest`` at most."""
    return min(first * 2.0 ** min(tries - 1, 32), longest)


class RefusalLog:
    """Says which row is refused and what to do: one line of a kind in ten seconds, with the number since the last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said_at: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def set_aside(self, event_id: EventId, error: StorageError) -> None:
        """A verdict could not be written; it is tried again."""
        self._say(
            "settle_refused",
            event_id,
            "the database refuses to settle event %s: %s. It is set aside and tried again; the other events go on. "
            "Correct the row, or the constraint or trigger that refuses it.",
            error,
        )

    def left_to_its_lease(self, event_id: EventId, error: StorageError) -> None:
        """A verdict was refused too often."""
        self._say(
            "settle_given_up",
            event_id,
            "the database keeps refusing to settle event %s: %s. Its lease will expire, and the event will be sent "
            "again. Correct the row, or the constraint or trigger that refuses it.",
            error,
        )

    def renewal_refused(self, event_id: EventId, error: StorageError) -> None:
        """A lease could not be prolonged."""
        self._say(
            "renewal_refused",
            event_id,
            "the database refuses to renew the lease of event %s: %s. The other events keep theirs. "
            "Correct the row, or the constraint or trigger that refuses it.",
            error,
        )

    def excluded(self, doing: str, error: StorageError) -> None:
        """A row could not be claimed or reaped (``doing``); it is left out for a while."""
        self._say(
            f"{doing}_refused",
            EventId(str(error.event_id)),
            f"the database refuses to {doing} event %s: %s. It is left out and tried again later; the others go on. "
            "Correct the row, or the constraint or trigger that refuses it.",
            error,
        )

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
        self._count[action] = self._count.get(action, 0) + 1
        now = self._clock()
        if now - self._said_at.get(action, float("-inf")) >= _PAUSE:
            events = self._count.pop(action)
            self._said_at[action] = now
            logger.error(message, event_id, reason, extra={"action": action, "event_id": event_id, "events": events})


class Exclusions:
    """Rows that the database refuses to claim, or to reap: left out of these statements, each time for longer."""

    def __init__(self, doing: str, clock: Callable[[], float]) -> None:
        """``doing``: ``claim`` or ``reap``."""
        self._doing = doing
        self._clock = clock
        self._log = RefusalLog(clock)
        self._rows: dict[EventId, tuple[int, float]] = {}
        """How often each was refused, and until when it is left out."""

    def ids(self) -> list[EventId]:
        """The rows to leave out now."""
        now = self._clock()
        return [event_id for event_id, (_, until) in self._rows.items() if until > now]

    def add(self, error: StorageError) -> bool:
        """Leave out the row that ``error`` names. False when it names none, or when too many are left out already."""
        now = self._clock()
        self._rows = {row: entry for row, entry in self._rows.items() if entry[1] + _LONGEST_EXCLUSION > now}
        if error.event_id is None or len(self._rows) >= _MOST_EXCLUDED:
            return False
        event_id = EventId(error.event_id)
        refusals = self._rows.get(event_id, (0, now))[0] + 1
        self._rows[event_id] = (refusals, now + growing_pause(refusals, _FIRST_EXCLUSION, _LONGEST_EXCLUSION))
        self._log.excluded(self._doing, error)
        return True
