"""Destinations that do not answer while others do: their events wait, use no attempt, and hold up no other.

A publisher with several servers behind it reports ``Away`` for an event whose server does not answer. The event is
released, and events of its flow are left out of claims: for PUBLISHER_CONNECT_RETRY_INTERVAL at first, twice as long
after each further time, ``LONGEST_HOLD`` at most. Then one claim takes events of the flow again, as a trial: nothing
more of it is claimed until the trial has an answer, or the same time has passed again.

    flowing ──Away──▶ held ──time──▶ the next claim tries ──Away──▶ held, for longer
       ▲                                     │
       └────────── acknowledged ─────────────┘

What is held is known by its flow, which is all that a claim can tell apart (``relay.engine.flows``): its event type, or
where a header leads to one of several destinations of a type, that one. So where one flow goes to several servers, the
events for those that answer wait for the next trial, too. An acknowledgement ends no hold in force, only a trial: else
such a flow would be claimed and released without a pause.

An event that goes to several destinations, of which the others have acknowledged it, waits for this one alone. Where
all events of a flow that come back ``Away`` are like that, only such events of it are held: the others are claimed, so
that the destinations which answer get them. An acknowledgement of one of those is one of all its destinations, and ends
the hold.

Memory of one relay, written in the event loop's thread: by the decider (outcomes) and the claim loop (trials), read by
/readyz. Each relay of a table finds out independently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from relay.core.heartbeats import NO_ANSWER
from relay.core.outcome import Away
from relay.core.places import Flow, type_of
from relay.core.telemetry import Telemetry
from relay.engine.flows import bounded

logger = logging.getLogger(__name__)

LONGEST_HOLD: Final = 30.0
"""Seconds between two trials at most, unless PUBLISHER_CONNECT_RETRY_INTERVAL is longer."""
_FORGET_AFTER = 60.0  # seconds without an event to try: another relay has delivered them, or they were deleted
_CLAIMED_WITHIN = 5.0  # seconds
_REMIND_SECONDS = 60.0
_MOST_NAMED = 10  # in /readyz


class Held(NamedTuple):
    """What a claim leaves out."""

    flows: tuple[Flow, ...] = ()
    in_part: tuple[Flow, ...] = ()
    """Flows of which only the events that some of their destinations have acknowledged are left out."""


NONE_HELD: Final = Held()


@dataclass(slots=True)
class _AwayFlow:
    """One flow whose destination does not answer."""

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
    """Which flows are away. True while there are any."""

    def __init__(self, telemetry: Telemetry, interval: float, clock: Callable[[], float]) -> None:
        """``interval`` is the first hold in seconds."""
        self._telemetry = telemetry
        self._interval = interval
        self._clock = clock
        self._away: dict[Flow, _AwayFlow] = {}

    def __bool__(self) -> bool:
        return bool(self._away)

    def degraded(self, reported: Collection[str] = ()) -> Mapping[str, str]:
        """What is away, for /readyz; empty while nothing is. The relay is ready all the same.

        Without what is away because of an outage in ``reported``: /readyz names that one already.
        """
        away = [
            f"{flow} ({one.outcome.reason})"
            for flow, one in self._away.items()
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
        for flow, one in list(self._away.items()):
            if now >= one.until + _FORGET_AFTER:
                self._forget(flow, "no event waits for it")
        held = {flow: one.in_part for flow, one in self._away.items() if now < one.until}
        return Held(
            tuple(bounded(flow for flow, in_part in held.items() if not in_part)),
            tuple(bounded(flow for flow, in_part in held.items() if in_part)),
        )

    def tried(self, flows: Set[Flow]) -> None:
        """A claim took events of these flows: those of them that were away are held until there is an answer."""
        now = self._clock()
        for flow in self._away.keys() & flows:
            one = self._away[flow]
            if now >= one.until:
                one.until, one.on_trial = now + one.hold, True

    def report(self, flow: Flow, outcome: Away, *, in_part: bool = False) -> None:
        """An event of this flow came back ``Away``. Those that were offered together count once.

        ``in_part``: other destinations have acknowledged it.
        """
        now = self._clock()
        one = self._away.get(flow)
        if one is None:
            self._away[flow] = _AwayFlow(outcome, self._longer(self._interval), now + self._interval, now, in_part)
            self._say(flow, outcome)
            self._tell_types()
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
            self._say(flow, outcome)

    def acknowledged(self, flows: Set[Flow]) -> bool:
        """Events of these flows were acknowledged; returns whether more may be claimed than before."""
        now = self._clock()
        more = False
        for flow in self._away.keys() & flows:
            one = self._away[flow]
            if one.on_trial or one.in_part or now >= one.until:
                self._forget(flow, "it answers")
                more = True
            else:
                one.hold = self._longer(self._interval)
        return more

    def _longer(self, hold: float) -> float:
        return min(2 * hold, max(LONGEST_HOLD, self._interval))

    def _forget(self, flow: Flow, why: str) -> None:
        one = self._away.pop(flow)
        self._tell_types()
        if not one.outcome.reported_as:
            message = "events of type %s are claimed again: %s"
            logger.info(message, flow, why, extra={"action": "destination_back", "event_type": type_of(flow)})

    def _tell_types(self) -> None:
        self._telemetry.away(sorted({type_of(flow) for flow in self._away}))

    @staticmethod
    def _say(flow: Flow, outcome: Away) -> None:
        if outcome.reported_as:  # the publisher says so itself, once for all types
            return
        message = "the destination of event type %s does not answer; its events wait and use no attempt: %s"
        extra = {"action": "destination_away", "event_type": type_of(flow)}
        logger.warning(message, flow, outcome.reason, extra=extra)
