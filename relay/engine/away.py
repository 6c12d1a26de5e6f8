"""Destinations that do not answer while others do: their events wait, use no attempt, and hold up no other.

A publisher with several servers behind it reports ``Away`` for an event whose server does not answer. The event is
released, and events of its type are left out of claims: for PUBLISHER_CONNECT_RETRY_INTERVAL at first, twice as long
after each further time, ``LONGEST_HOLD`` at most. Then one claim takes events of the type again, as a trial: nothing
more of it is claimed until the trial has an answer, or the same time has passed again.

    flowing ──Away──▶ held ──time──▶ the next claim tries ──Away──▶ held, for longer
       ▲                                     │
       └────────── acknowledged ─────────────┘

What is held is known by its event type, which is all that a claim can tell apart. So where one type goes to several
servers, the events for those that answer wait for the next trial, too. An acknowledgement ends no hold in force, only a
trial: else such a type would be claimed and released without a pause.

An event that goes to several destinations, of which the others have acknowledged it, waits for this one alone. Where
all events of a type that come back ``Away`` are like that, only such events of it are held: the others are claimed, so
that the destinations which answer get them. An acknowledgement of one of those is one of all its destinations, and ends
the hold.

Memory of one relay, written in the event loop's thread: by the decider (outcomes) and the claim loop (trials), read by
/readyz. Each relay of a table finds out independently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from relay.core.fleet import NO_ANSWER
from relay.core.outcome import Away
from relay.core.telemetry import Telemetry

logger = logging.getLogger(__name__)

LONGEST_HOLD: Final = 30.0
"""Seconds between two trials at most, unless PUBLISHER_CONNECT_RETRY_INTERVAL is longer."""
_FORGET_AFTER = 60.0  # seconds without an event to try: another relay has delivered them, or they were deleted
_CLAIMED_WITHIN = 5.0  # seconds
_REMIND_SECONDS = 60.0
_MOST_NAMED = 10  # in /readyz


class Held(NamedTuple):
    """The event types that a claim leaves out."""

    types: tuple[str, ...] = ()
    in_part: tuple[str, ...] = ()
    """Types of which only the events that some of their destinations have acknowledged are left out."""


NONE_HELD: Final = Held()


@dataclass(slots=True)
class _AwayType:
    """One event type whose destination does not answer."""

    outcome: Away
    """The last one of its events."""
    hold: float
    """How long it is held after the next time."""
    until: float
    """No claim takes it before this time."""
    said_at: float
    in_part: bool
    """All of its events that came back in this hold wait for one of several destinations."""
    on_trial: bool = False
    """A claim took some of it, and there is no answer yet."""


class AwayDestinations:
    """Which event types are away. True while there are any."""

    def __init__(self, telemetry: Telemetry, interval: float, clock: Callable[[], float]) -> None:
        """``interval`` is the first hold in seconds."""
        self._telemetry = telemetry
        self._interval = interval
        self._clock = clock
        self._away: dict[str, _AwayType] = {}

    def __bool__(self) -> bool:
        return bool(self._away)

    def degraded(self, reported: Collection[str] = ()) -> Mapping[str, str]:
        """What is away, for /readyz; empty while nothing is. The relay is ready all the same.

        Without what is away because of an outage in ``reported``: /readyz names that one already.
        """
        away = [
            f"{event_type} ({one.outcome.reason})"
            for event_type, one in self._away.items()
            if one.outcome.reported_as not in reported
        ]
        if not away:
            return {}
        named = away[:_MOST_NAMED]
        more = len(away) - len(named)
        return {"destinations": f"{NO_ANSWER}{', '.join(named)}{f' and {more} more' if more else ''}"}

    def reason(self, title: str) -> str:
        """Why events wait for an outage reported as ``title``; empty where none does.

        A claim takes an event that waits soon after the time of its hold, and that is a trial.
        """
        now = self._clock()
        waiting = (one for one in self._away.values() if now < one.until + _CLAIMED_WITHIN)
        return next((one.outcome.reason for one in waiting if one.outcome.reported_as == title), "")

    def held(self) -> Held:
        """What a claim that is sent now must leave out."""
        now = self._clock()
        for event_type, one in list(self._away.items()):
            if now >= one.until + _FORGET_AFTER:
                self._forget(event_type, "no event waits for it")
        held = sorted((event_type, one.in_part) for event_type, one in self._away.items() if now < one.until)
        return Held(
            tuple(event_type for event_type, in_part in held if not in_part),
            tuple(event_type for event_type, in_part in held if in_part),
        )

    def tried(self, event_types: Collection[str]) -> None:
        """A claim took events of these types: those of them that were away are held until there is an answer."""
        now = self._clock()
        for event_type in self._away.keys() & event_types:
            one = self._away[event_type]
            if now >= one.until:
                one.until, one.on_trial = now + one.hold, True

    def report(self, event_type: str, outcome: Away, *, in_part: bool = False) -> None:
        """An event of this type came back ``Away``. Those that were offered together count once.

        ``in_part``: other destinations have acknowledged it.
        """
        now = self._clock()
        one = self._away.get(event_type)
        if one is None:
            self._away[event_type] = _AwayType(
                outcome, self._longer(self._interval), now + self._interval, now, in_part
            )
            self._say(event_type, outcome)
            self._telemetry.away(sorted(self._away))
            return
        one.outcome = outcome
        if now < one.until and not one.on_trial:
            one.in_part &= in_part
            return
        one.in_part = in_part
        one.until, one.on_trial = now + one.hold, False
        one.hold = self._longer(one.hold)
        if now - one.said_at >= _REMIND_SECONDS:
            one.said_at = now
            self._say(event_type, outcome)

    def acknowledged(self, event_types: Collection[str]) -> bool:
        """Events of these types were acknowledged; returns whether more may be claimed than before."""
        now = self._clock()
        more = False
        for event_type in self._away.keys() & event_types:
            one = self._away[event_type]
            if one.on_trial or one.in_part or now >= one.until:
                self._forget(event_type, "it answers")
                more = True
            else:
                one.hold = self._longer(self._interval)
        return more

    def _longer(self, hold: float) -> float:
        return min(2 * hold, max(LONGEST_HOLD, self._interval))

    def _forget(self, event_type: str, why: str) -> None:
        one = self._away.pop(event_type)
        self._telemetry.away(sorted(self._away))
        if not one.outcome.reported_as:
            message = "events of type %s are claimed again: %s"
            logger.info(message, event_type, why, extra={"action": "destination_back", "event_type": event_type})

    @staticmethod
    def _say(event_type: str, outcome: Away) -> None:
        if outcome.reported_as:  # the publisher says so itself, once for all types
            return
        message = "the destination of event type %s does not answer; its events wait and use no attempt: %s"
        logger.warning(
            message, event_type, outcome.reason, extra={"action": "destination_away", "event_type": event_type}
        )
