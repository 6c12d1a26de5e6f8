"""What this relay holds: the batches that are claimed and not settled, and the bounds on them.

Everything here runs in the event loop's thread and never waits, so a method is a critical section by itself. A
batch belongs to one claim and so to one fence. ``writing`` marks a batch that a settle or a renewal is about: the
two never overlap, for the renewal changes the fence that the settle is checked by.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import Acknowledged, Outcome, Resolution, TimedOut, Transient, Unreachable
from relay.core.ports import AttemptRecorder, Settlement
from relay.core.telemetry import Telemetry
from relay.core.verdict import Bury, Deliver, Release, Retry, decide
from relay.engine.attempts import Attempts
from relay.engine.order import Runs

logger = logging.getLogger(__name__)

_SETTLE_LINGER = 0.005  # seconds; a batch whose last answers are on their way is written once, not twice


class Batch:
    """The events of one claim while this relay holds them."""

    __slots__ = (
        "ambiguous",
        "attempts",
        "claimed_at",
        "expires_at",
        "fence",
        "last_chance",
        "offered_at",
        "payload_bytes",
        "refusals",
        "renew_at",
        "runs",
        "sent_at",
        "settlement",
        "undecided",
        "unresolved",
        "writing",
    )

    def __init__(
        self,
        fence: Fence,
        events: Sequence[OutboxEvent],
        sent_at: float,
        lease: float,
        *,
        last_chance: bool = False,
        in_order: bool = False,
    ) -> None:
        self.last_chance = last_chance
        """A lone event on its last attempt, which may have killed relays before: nothing else is in flight with it."""
        self.runs = Runs()
        """What may not be offered yet, for it is behind another event of its key."""
        offered = self.runs.hold_back(events) if in_order else events
        self.unresolved: dict[EventId, OutboxEvent] = {event.event_id: event for event in offered}
        self.undecided: list[tuple[OutboxEvent, TimedOut]] = []
        self.attempts: Attempts | None = None
        """What the recorder will be told once it is settled; None when there is no recorder."""
        self.claimed_at = fence
        self.settlement = Settlement(fence)
        self.payload_bytes = sum(len(event.payload) for event in events)
        self.sent_at = sent_at
        self.offered_at = sent_at
        self.writing = False
        self.ambiguous = False
        """A settle of this batch was sent and its reply lost: it may have been carried out."""
        self.refusals: dict[EventId, int] = {}
        """How often the database refused to settle an event by itself."""
        self.leased(fence, sent_at, lease)

    def leased(self, fence: Fence, sent_at: float, lease: float) -> None:
        """A claim or renewal that was sent at ``sent_at`` holds under ``fence``."""
        self.fence = fence
        self.expires_at = sent_at + lease
        self.renew_at = sent_at + lease / 3

    def take_settlement(self) -> Settlement:
        """The verdicts reached so far, under the present fence."""
        taken = self.settlement
        taken.fence = self.fence
        self.settlement = Settlement(self.fence)
        return taken

    def put_back(self, settlement: Settlement) -> None:
        """Verdicts that could not be written wait for the next try, before the newer ones."""
        for mine, theirs in (
            (self.settlement.delivered, settlement.delivered),
            (self.settlement.retried, settlement.retried),
            (self.settlement.buried, settlement.buried),
            (self.settlement.released, settlement.released),
        ):
            mine[:0] = theirs  # type: ignore[assignment]

    def held_ids(self) -> list[EventId]:
        """Every event of this batch that is not settled."""
        undecided = (event.event_id for event, _ in self.undecided)
        return [*self.unresolved, *undecided, *self.runs.ids(), *self.settlement.event_ids()]

    def drop(self, lost: Iterable[EventId]) -> None:
        """Forget events that are no longer ours; an outcome that still comes finds nothing."""
        gone = set(lost)
        waiting = self.settlement
        if self.runs:
            self._end_runs_behind(gone)
        for event_id in gone:
            self.unresolved.pop(event_id, None)
        self.undecided = [held for held in self.undecided if held[0].event_id not in gone]
        waiting.delivered = [event_id for event_id in waiting.delivered if event_id not in gone]
        waiting.retried = [entry for entry in waiting.retried if entry[0] not in gone]
        waiting.buried = [entry for entry in waiting.buried if entry[0] not in gone]
        waiting.released = [event_id for event_id in waiting.released if event_id not in gone]

    def _end_runs_behind(self, gone: set[EventId]) -> None:
        """What waits behind an event that is no longer ours will never be offered by us: it is released."""
        self.settlement.released.extend(self.runs.drop(gone))
        undecided = (event for event, _ in self.undecided)
        for event in [*self.unresolved.values(), *undecided]:
            if event.event_id in gone:
                self.settlement.released.extend(self.runs.end(event))

    @property
    def empty(self) -> bool:
        """Whether nothing of the claim is left to do."""
        return not (self.unresolved or self.undecided or self.runs or len(self.settlement) or self.writing)


class InFlight:
    """All batches of one relay, and the events that wake its loops."""

    def __init__(
        self,
        telemetry: Telemetry,
        retry: RetryPolicy,
        max_events: int,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        recorder: AttemptRecorder | None = None,
    ) -> None:
        self._recorder = recorder
        self._telemetry = telemetry
        self._retry = retry
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._clock = clock
        self._linger: asyncio.TimerHandle | None = None
        self.batches: dict[Batch, None] = {}
        self.events = 0
        self.payload_bytes = 0
        self.acknowledged = 0
        """Acknowledgements since the start: progress is a sign of life."""
        self.unreachable_reason = ""
        """Set when a publisher reported the broker unreachable; the gate reads and clears it."""
        self.abandoning = False
        """While the publisher is told to forget everything, its word on reachability is our own echo."""
        self.changed = asyncio.Event()
        """Something was settled or dropped: there may be room again."""
        self.settleable = asyncio.Event()
        """There are verdicts to write."""
        self.followers: list[tuple[Batch, OutboxEvent]] = []
        """Events of ``unresolved`` that come next in their key and are yet to be offered."""
        self.following = asyncio.Event()
        """There are ``followers``."""
        self.attention = asyncio.Event()
        """The gate is wanted: an outcome is undecided, or the broker did not answer."""

    def room(self) -> tuple[int, int]:
        """How many events, and how many bytes of payload, may be claimed now."""
        return self._max_events - self.events, self._max_bytes - self.payload_bytes

    def add(self, batch: Batch) -> None:
        """A claim came back with events."""
        if self._recorder is not None:
            batch.attempts = Attempts(self._recorder)
        self.batches[batch] = None
        self.events += len(batch.unresolved) + len(batch.runs)
        self.payload_bytes += batch.payload_bytes
        self._telemetry.in_flight(self.events)

    @property
    def careful(self) -> bool:
        """Whether an event on its last attempt is in flight, beside which nothing is claimed."""
        return any(batch.last_chance for batch in self.batches)

    @property
    def undecided(self) -> bool:
        """Whether timeouts are held for a probe."""
        return any(batch.undecided for batch in self.batches)

    @property
    def unanswered(self) -> int:
        """Events whose outcome is not known yet."""
        return sum(len(batch.unresolved) + len(batch.undecided) + len(batch.runs) for batch in self.batches)

    def resolve(self, batch: Batch, resolutions: Sequence[Resolution]) -> None:
        """Take outcomes of events of ``batch``; those of events no longer held are ignored."""
        now = self._clock()
        pop = batch.unresolved.pop
        acked: list[OutboxEvent] = []
        others: list[Resolution] = []
        for resolution in resolutions:
            event, outcome = resolution
            if pop(event.event_id, None) is None:
                continue
            if type(outcome) is Acknowledged:
                acked.append(event)
            else:
                others.append(resolution)
        if acked and batch.runs:
            self._follow(batch, acked)
        if acked:
            batch.settlement.delivered.extend([event.event_id for event in acked])
            self.acknowledged += len(acked)
            since_claim = now - batch.sent_at
            if batch.attempts is not None:
                batch.attempts.acknowledged(resolutions, since_claim)
            self._telemetry.acknowledged(
                [now - batch.offered_at] * len(acked), [event.age + since_claim for event in acked]
            )
        if others:
            self._take_failures(batch, others, now)
        self._resolved_some(batch)

    def _follow(self, batch: Batch, acked: Sequence[OutboxEvent]) -> None:
        """The next events of these keys have their turn."""
        for event in batch.runs.after(acked):
            batch.unresolved[event.event_id] = event
            self.followers.append((batch, event))
            self.following.set()

    def take_followers(self) -> dict[Batch, list[OutboxEvent]]:
        """The events that are to be offered now, by batch."""
        self.following.clear()
        taken, self.followers = self.followers, []
        by_batch: dict[Batch, list[OutboxEvent]] = {}
        for batch, event in taken:
            by_batch.setdefault(batch, []).append(event)
        return by_batch

    def _take_failures(self, batch: Batch, resolutions: Sequence[Resolution], now: float) -> None:
        refused = 0
        for event, outcome in resolutions:
            if isinstance(outcome, TimedOut):
                batch.undecided.append((event, outcome))
                self.attention.set()
                continue
            if isinstance(outcome, Unreachable):
                if not self.abandoning:
                    self.unreachable_reason = outcome.reason or "the broker did not answer"
                    self.attention.set()
            else:
                refused += 1
            self._note(batch, event, outcome)
        if refused:
            self._telemetry.refused([now - batch.offered_at] * refused)

    def _note(self, batch: Batch, event: OutboxEvent, outcome: Outcome) -> None:
        """Turn a decided outcome into the verdict that will be written."""
        event_id = event.event_id
        verdict = decide(outcome, event.attempts, self._retry, random.random())
        if batch.attempts is not None and not isinstance(verdict, Release):
            batch.attempts.failed(event, outcome, verdict, self._clock() - batch.sent_at)
        if batch.runs and not isinstance(verdict, Deliver):
            batch.settlement.released.extend(batch.runs.end(event))
        match verdict:
            case Deliver():
                batch.settlement.delivered.append(event_id)
            case Retry(delay, error):
                batch.settlement.retried.append((event_id, error, delay))
                # the text holds neither id nor delay: what fails alike is one line a second, with a count
                logger.warning(
                    "an event of type %s failed and is tried again: %s",
                    event.event_type,
                    error,
                    extra={"action": "event_retried", "event_id": event_id, "attempts": event.attempts + 1},
                )
            case Bury(error):
                batch.settlement.buried.append((event_id, error))
                logger.warning(
                    "event %s is dead: %s",
                    event_id,
                    error,
                    extra={"action": "event_dead", "event_id": event_id, "event_type": event.event_type},
                )
            case Release():
                batch.settlement.released.append(event_id)

    def decide_undecided(self, unreachable: str | None) -> None:
        """The probe has spoken: held timeouts become transient failures, or the broker's fault (the reason)."""
        for batch in list(self.batches):
            held, batch.undecided = batch.undecided, []
            for event, outcome in held:
                if unreachable is None:
                    self._note(batch, event, Transient(outcome.code, outcome.reason))
                else:
                    self._note(batch, event, Unreachable(unreachable))
            if held:
                if unreachable is None:
                    self._telemetry.refused([self._clock() - batch.offered_at] * len(held))
                self._resolved_some(batch)

    def give_back(self, batch: Batch) -> None:
        """Release what of ``batch`` has no outcome: the client does not hold it (any more)."""
        batch.settlement.released.extend(batch.unresolved)
        batch.settlement.released.extend(event.event_id for event, _ in batch.undecided)
        batch.settlement.released.extend(batch.runs.end_all())
        batch.unresolved.clear()
        batch.undecided.clear()
        self._resolved_some(batch)

    def forfeit(self, batch: Batch, lost: Sequence[EventId]) -> None:
        """Events of ``batch`` are no longer ours to settle."""
        batch.drop(lost)
        if len(batch.settlement):
            self.settleable.set()
        self._telemetry.leases_lost(len(lost))
        self._gone(batch, len(lost))

    def settled(self, batch: Batch, settlement: Settlement) -> None:
        """The verdicts of ``settlement`` are written, or given up."""
        if batch.attempts is not None:
            batch.attempts.hand_over(settlement, batch.claimed_at)
        self._gone(batch, len(settlement))

    def take_settleable(self) -> list[tuple[Batch, Settlement]]:
        """Every batch with verdicts to write that nobody writes to; they are marked as being written."""
        self.settleable.clear()
        work = []
        for batch in self.batches:
            if len(batch.settlement) and not batch.writing:
                batch.writing = True
                work.append((batch, batch.take_settlement()))
        return work

    def written(self, batch: Batch) -> None:
        """A settle or renewal of ``batch`` is over; what came meanwhile can be written."""
        batch.writing = False
        if len(batch.settlement):
            self.settleable.set()
        if batch.empty:
            self._remove(batch)

    def _resolved_some(self, batch: Batch) -> None:
        if not batch.unresolved:
            self.payload_bytes -= batch.payload_bytes
            batch.payload_bytes = 0
            self.settleable.set()
            self.changed.set()
        elif self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(_SETTLE_LINGER, self._linger_over)

    def _linger_over(self) -> None:
        self._linger = None
        self.settleable.set()

    def _gone(self, batch: Batch, events: int) -> None:
        self.events -= events
        self._telemetry.in_flight(self.events)
        self.changed.set()
        if batch.empty:
            self._remove(batch)

    def _remove(self, batch: Batch) -> None:
        if batch in self.batches:
            del self.batches[batch]
            self.payload_bytes -= batch.payload_bytes
            batch.payload_bytes = 0
            self.changed.set()
