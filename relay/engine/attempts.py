"""Attempts of a batch's events, kept for the recorder (the delivery log) until their settlement is written.

With a delivery log this lies on the path of every event, so nothing is made for an event before the recorder has said
that it has room: groups of acknowledgements are kept as the publisher handed them in, and become attempts when they are
settled. A recorder that is full costs a few calls for each batch and nothing for an event.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import Acknowledged, Outcome, Resolution
from relay.core.recorder import AttemptRecorder, SettledAttempt
from relay.core.storage import Settlement


class Attempts:
    """The outcomes of one batch: ``Decider`` adds them, ``Batch`` hands them over. Only with a recorder."""

    __slots__ = ("_acknowledged", "_failed", "_recorder")

    def __init__(self, recorder: AttemptRecorder) -> None:
        self._recorder = recorder
        self._acknowledged: list[tuple[Sequence[Resolution], float]] = []
        self._failed: dict[EventId, tuple[OutboxEvent, Outcome, float]] = {}

    def acknowledged(self, resolutions: Sequence[Resolution], seconds: float) -> None:
        """A group of outcomes that came together, ``seconds`` after the claim; what is no acknowledgement is ignored.

        The group is kept as it is: the publisher must not change it afterwards.
        """
        if self._recorder.wants_successes:
            self._acknowledged.append((resolutions, seconds))

    def failed(self, event: OutboxEvent, outcome: Outcome, seconds: float) -> None:
        """An attempt that failed, ``seconds`` after the claim."""
        self._failed[event.event_id] = (event, outcome, seconds)

    def hand_over(self, settlement: Settlement, claimed_at: Fence) -> None:
        """Give the recorder the attempts of a settlement that is written, or their number if it has no room."""
        delivered = settlement.delivered if self._recorder.wants_successes else []
        failures = [retried[0] for retried in settlement.retried] + [buried[0] for buried in settlement.buried]
        if len(delivered) + len(failures) == 0 or self._recorder.refuses(len(delivered) + len(failures)):
            return
        attempts = self._take_acknowledged(set(delivered), claimed_at) if delivered else []
        for event_id in failures:
            failure = self._failed.pop(event_id, None)
            if failure is not None:
                event, outcome, seconds = failure
                attempts.append(SettledAttempt(event, outcome, claimed_at, seconds))
        self._recorder.record(attempts)

    def _take_acknowledged(self, delivered: set[EventId], claimed_at: Fence) -> list[SettledAttempt]:
        """The attempts of these events; groups with others in them are kept for the settlement of those."""
        settled_attempts: list[SettledAttempt] = []
        groups, self._acknowledged = self._acknowledged, []
        for resolutions, seconds in groups:
            rest: list[Resolution] = []
            for resolution in resolutions:
                event, outcome = resolution
                if event.event_id in delivered:
                    settled_attempts.append(SettledAttempt(event, outcome, claimed_at, seconds))
                elif type(outcome) is Acknowledged:
                    rest.append(resolution)
            if rest:
                self._acknowledged.append((rest, seconds))
        return settled_attempts
