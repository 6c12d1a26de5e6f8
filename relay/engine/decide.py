"""Decide: an outcome becomes a verdict, a log line, a measurement and an attempt record. Step 3 of an event's way.

    Acknowledged  ──▶ DELIVERED
    Transient     ──▶ PENDING with backoff, or DEAD when the attempts are used up
    Permanent     ──▶ DEAD
    Unreachable   ──▶ released, no attempt used; the gate closes
    TimedOut      ──▶ undecided until the gate has probed the broker: then Transient or Unreachable
    ConnectionCut ──▶ undecided until then, too: then a suspect, or Unreachable
    Withheld      ──▶ released, no attempt used
    Away          ──▶ released, no attempt used; events of its flow are left out of claims for a time

Which verdict an outcome leads to is the table in ``relay.core.verdict``. Here the batch is given that verdict, and the
loops that go on with it are woken: the settler, the follow loop, and the gate.

Nothing here waits, so between taking an event out of ``offered`` and writing its verdict down no other task runs.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from relay.core.destination import TITLE
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    Away,
    ConnectionCut,
    Outcome,
    Resolution,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)
from relay.core.outside import cut
from relay.core.places import flow_away
from relay.core.telemetry import EngineCounter
from relay.core.verdict import Bury, Release, Retry, Verdict, decide
from relay.engine.batch import Batch
from relay.engine.context import EngineContext

logger = logging.getLogger(__name__)

_LONGEST_NAME = 200  # characters of an event type in a line that says more
_MOST_UNSURE = 20_000  # events of which the broker may have a message; their ids take 4 MB


class _Unsure:
    """Events that this relay has offered and that were not acknowledged, the oldest first: the broker may have them.

    A duplicate of one of these is its own repeat.
    """

    def __init__(self) -> None:
        self.ids: dict[EventId, None] = {}

    def note(self, resolutions: Sequence[Resolution]) -> None:
        """These failed, or nothing is known of them."""
        self.ids.update((event.event_id, None) for event, outcome in resolutions if not isinstance(outcome, Withheld))
        while len(self.ids) > _MOST_UNSURE:
            del self.ids[next(iter(self.ids))]

    def forget(self, events: Sequence[OutboxEvent]) -> None:
        """These were acknowledged."""
        if self.ids:
            for event in events:
                self.ids.pop(event.event_id, None)


class Decider:
    """Takes the outcomes of one publisher. ``resolve`` is the publisher's sink, ``decide_undecided`` the gate's."""

    def __init__(self, context: EngineContext) -> None:
        self._inflight = context.inflight
        self._suspects = context.suspects
        self._away = context.away
        self._parts = context.parts
        self._flows = context.flows
        self._telemetry = context.telemetry
        self._counts = context.counts
        self._retry = context.options.retry
        self._clock = context.clock
        self._unsure = _Unsure()
        self.acknowledged = 0
        """Acknowledgements since the start: progress is a sign of life."""
        self.unreachable_reason = ""
        """Why the publisher called the broker unreachable; empty when it did not, or the gate has dealt with it."""

    def resolve(self, batch: Batch, resolutions: Sequence[Resolution], *, echo: bool = False) -> None:
        """Take outcomes of events of ``batch``, as a group; those of events no longer held are ignored.

        ``echo``: the publisher is being made to forget its events, and calls each of them unreachable for that.

        The publisher calls this whenever it has outcomes: while ``publish`` still hands over the rest of the batch,
        while a settle or renewal of the batch is under way, and after the batch was abandoned. It is safe because an
        event has its outcome taken once only: the first call takes it out of ``offered``. Verdicts that come while
        others are being written wait in the batch for the next settle.
        """
        now = self._clock()
        acknowledged, others = batch.take_answers(resolutions, now)
        if self._parts:
            self._parts.answered(resolutions)
        if acknowledged:
            self.acknowledged += len(acknowledged)
            if self._away and self._away.acknowledged(self._flows.of_all(acknowledged)):
                self._inflight.claimable.set()
                self._inflight.attention.set()
            since_claim = now - batch.sent_at
            if batch.attempts is not None:
                batch.attempts.acknowledged(resolutions, since_claim)
            special = [resolution for resolution in resolutions if resolution[1] is not ACKNOWLEDGED]
            if special:
                self._note_special(special)
            self._unsure.forget(acknowledged)
            self._counts.acknowledged(acknowledged)
            self._telemetry.acknowledged(
                [now - batch.offered_at] * len(acknowledged), [event.age + since_claim for event in acknowledged]
            )
        if others:
            self._unsure.note(others)
            self._failed(batch, others, now, echo=echo)
        self._inflight.decided(batch)

    def _note_special(self, special: Sequence[Resolution]) -> None:
        """Count and say what acknowledgements say besides."""
        if dropped := [event for event, outcome in special if self._is_dropped(event, outcome)]:
            self._say_dropped(dropped)
        restamped = [event for event, outcome in special if isinstance(outcome, Acknowledged) and outcome.restamped]
        if not restamped:
            return
        self._telemetry.count(EngineCounter.RESTAMPED, len(restamped))
        # Without id and time: what is alike is one line a second, with a count.
        logger.info(
            "the broker takes no message with the time of an event of type %s: sent with the database's now",
            cut(restamped[0].event_type, _LONGEST_NAME),
            extra={"action": "event_restamped", "event_id": restamped[0].event_id, "events": len(restamped)},
        )

    def _is_dropped(self, event: OutboxEvent, outcome: Outcome) -> bool:
        """Whether it was acknowledged as a duplicate though it has used no attempt, and was not offered before."""
        duplicate = type(outcome) is Acknowledged and outcome.duplicate
        return duplicate and not event.attempts and event.event_id not in self._unsure.ids

    def _say_dropped(self, dropped: Sequence[OutboxEvent]) -> None:
        """The broker has other messages with the ids of these events, and not theirs."""
        self._telemetry.count(EngineCounter.DROPPED, len(dropped))
        logger.warning(
            "the broker acknowledged an event of type %s as a duplicate that this relay has not offered before: unless "
            "another relay has, the broker has another message with that id, and not this one",
            dropped[0].event_type,
            extra={"action": "event_dropped", "event_id": dropped[0].event_id, "events": len(dropped)},
        )

    def _failed(self, batch: Batch, resolutions: Sequence[Resolution], now: float, *, echo: bool) -> None:
        refused = 0
        for event, outcome in resolutions:
            if isinstance(outcome, TimedOut | ConnectionCut):
                # The gate is another task: it probes the broker and calls decide_undecided.
                batch.hold(event, outcome)
                self._inflight.attention.set()
                continue
            if isinstance(outcome, Unreachable):
                if not echo:
                    self.unreachable_reason = outcome.reason or "the broker did not answer"
                    self._inflight.attention.set()
            elif isinstance(outcome, Away):
                self._take_away(batch, event, self._parts.take(event, outcome) or outcome)
                continue
            elif not isinstance(outcome, Withheld):
                refused += 1
            self._decide(batch, event, outcome)
        if refused:
            self._telemetry.refused([now - batch.offered_at] * refused)

    def _take_away(self, batch: Batch, event: OutboxEvent, outcome: Away) -> None:
        flow = flow_away(self._flows.of(event), outcome.reported_as.removeprefix(TITLE))
        self._away.report(flow, outcome, in_part=event.acknowledged_by is not None)
        self._inflight.attention.set()
        self._decide(batch, event, outcome)

    def _decide(self, batch: Batch, event: OutboxEvent, outcome: Outcome) -> None:
        """Turn a failure into the verdict that is written, and say and record it."""
        verdict = decide(outcome, event.attempts, self._retry, random.random())
        if batch.attempts is not None and not isinstance(verdict, Release):
            batch.attempts.failed(event, outcome, self._clock() - batch.sent_at)
        batch.decide(event, verdict)
        if isinstance(verdict, Retry | Bury):
            self._counts.failed(event.event_type, dead=isinstance(verdict, Bury))
        if batch.trace is not None:
            batch.trace.decide(event.event_id, verdict, outcome)
        _log(event, verdict)

    def decide_undecided(self, unreachable: str | None) -> None:
        """The probe is over: timeouts become transient failures, what was cut off becomes suspect.

        ``unreachable`` is the reason when the probe failed: then both kinds are released. So are those for a part of
        the destination that does not answer. Outcomes that came while the probe was under way are decided by it too.
        """
        cut_off: dict[Batch, list[OutboxEvent]] = {}
        for batch in list(self._inflight.batches):
            if undecided := batch.take_undecided():
                cut = [event for event, outcome in undecided if self._is_cut(batch, event, outcome, unreachable)]
                self._suspect(batch, cut)
                cut_off |= {batch: cut} if cut else {}
        if cut_off:
            self._suspects.accuse(cut_off)
            _log_cut(sum(map(len, cut_off.values())))
        self._suspects.changed.set()

    def _is_cut(
        self, batch: Batch, event: OutboxEvent, outcome: TimedOut | ConnectionCut, unreachable: str | None
    ) -> bool:
        """Whether it is suspect; else it is decided."""
        if unreachable is not None:
            self._decide(batch, event, Unreachable(unreachable))
        elif (away := self._parts.outcome_of(event)) is not None:
            self._take_away(batch, event, away)
        elif isinstance(outcome, TimedOut):
            self._decide(batch, event, Transient(outcome.code, outcome.reason))
            self._telemetry.refused([self._clock() - batch.offered_at])
        else:
            return True
        return False

    def _suspect(self, batch: Batch, events: Sequence[OutboxEvent]) -> None:
        """Of what was undecided, these are suspects, and the others have their verdict."""
        batch.suspect(events)
        if batch.trace is not None:
            batch.trace.cut_off(events)
        self._inflight.decided(batch)

    def forget_unreachable(self) -> None:
        """The gate has dealt with what the publisher said of the broker."""
        self.unreachable_reason = ""
        self._inflight.attention.clear()


def _log_cut(events: int) -> None:
    logger.warning(
        "the connection to the broker was cut while the broker answers: what was in flight is offered again in "
        "smaller groups, to find the event that causes it",
        extra={"action": "connection_cut", "events": events},
    )


def _log(event: OutboxEvent, verdict: Verdict) -> None:
    match verdict:
        case Retry(_, error):
            # The message holds neither id nor delay: what fails alike is one line a second, with a count.
            logger.warning(
                "an event of type %s failed and is tried again: %s",
                cut(event.event_type, _LONGEST_NAME),
                error,
                extra={"action": "event_retried", "event_id": event.event_id, "attempts": event.attempts + 1},
            )
        case Bury(error):
            logger.warning(
                "event %s is dead: %s",
                event.event_id,
                error,
                extra={"action": "event_dead", "event_id": event.event_id, "event_type": event.event_type},
            )
        case _:
            pass
