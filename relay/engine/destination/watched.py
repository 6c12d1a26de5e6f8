"""The state of one thing that can fail on its own: a destination, or a part of one.

Its states are in the table of ``relay.engine.destination.destination``. It may be in several at a time; the worst of
them is shown. Nothing but ``note`` changes one, or says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from relay.core.destination import TITLE, DestinationCondition, DestinationState, Waiting, WatchedDestination
from relay.core.places import Flow

logger = logging.getLogger(__name__)

SLOW_AFTER = 5.0
"""Seconds without an answer to an event."""
_SLOW_FOR = 30.0  # seconds since an event waited that long
_SAID = {
    DestinationState.FLOWING: (logging.INFO, "back", "destination %s %s"),
    DestinationState.SLOW: (logging.WARNING, "slow", "destination %s is slow: %s"),
    DestinationState.BLOCKED: (logging.ERROR, "blocked", "destination %s answers probes and takes no events: %s"),
    DestinationState.AWAY: (logging.ERROR, "away", "destination %s cannot be reached: %s"),
    DestinationState.REFUSED: (logging.ERROR, "refused", "destination %s refuses the relay: %s"),
}


class Watched:
    """See the module's text. Implements ``WatchedDestination``."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self.title = f"{TITLE}{name}"
        """Its name in reasons and in /readyz."""
        self._clock = clock
        self._why: dict[DestinationState, str] = {}
        """Why it is in each state that it is in; the worst of them is its state. One that refuses is away, too."""
        self._began = 0.0
        """When its state began; set when it is watched."""
        self._slow_at = 0.0
        """When an event waited for long last."""

    @property
    def state(self) -> DestinationState:
        """The value of ``openoutbox_destination_state``."""
        return max(self._why, default=DestinationState.FLOWING)

    @property
    def condition(self) -> DestinationCondition:
        """Its state, since when, and why."""
        state, waiting = self.state, self.waiting
        reason = self._why.get(state, "")
        if waiting is not None and waiting.events and not reason:
            reason = f"at its rate of {waiting.rate:g} events a second: {waiting.events} wait for it"
        return DestinationCondition(state.name.lower(), self._clock() - self._began, reason)

    @property
    def parts(self) -> Mapping[str, WatchedDestination]:
        """See ``WatchedDestination``."""
        return {}

    def late_flows(self, after: float) -> Collection[Flow]:  # noqa: ARG002 - for those that are one of several
        """See ``WatchedDestination``."""
        return ()

    @property
    def waiting(self) -> Waiting | None:
        """See ``WatchedDestination``."""
        return None

    def share_room(self, room: Callable[[bool], int]) -> None:
        """See ``WatchedDestination``."""

    def note(self, why: Mapping[DestinationState, str], end: str = "") -> None:
        """Note why it is in these states; empty for one that is over. ``end`` is said when all of them are over."""
        before, was = self.state, max(self._why.keys() & why.keys(), default=DestinationState.FLOWING)
        self._why = {state: reason for state, reason in {**self._why, **why}.items() if reason}
        now = max(self._why.keys() & why.keys(), default=DestinationState.FLOWING)
        if self.state is not before:
            self._began = self._clock()
        self.say(now, why.get(now, end), again=now is was)

    def note_wait(self, seconds: float) -> None:
        """An event has waited for its answer for so long; 0 where none waits."""
        now, slow = self._clock(), DestinationState.SLOW
        if seconds >= SLOW_AFTER:
            self._slow_at = now
            if slow not in self._why:
                self.note({slow: f"no answer to an event for {seconds:.0f} s, while probes are answered"})
        elif slow in self._why and now - self._slow_at >= _SLOW_FOR:
            self.note({slow: ""}, "answers in time")

    def say(self, state: DestinationState, reason: str, *, again: bool = False) -> None:
        """Log what begins; FLOWING is the end of it, and what it does then. ``again``: it was so before."""
        if not again:
            level, action, message = _SAID[state]
            extra = {"action": f"destination_{action}", "destination": self.name}
            logger.log(level, message, self.name, reason, extra=extra)
