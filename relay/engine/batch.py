"""The events of one claim while this relay holds them, and the states that an event goes through inside a batch.

    claim ──▶ waiting ──▶ offered ──▶ undecided ──▶ decided ──▶ being written ──▶ gone
       │         │           │ ▲└──────────┼───────▶  ▲  ▲            │
       │         │           │ └─ suspect ◀┤          │  └─ put back ─┤ the statement failed
       │         └───────────┴── release ──┴──────────┘  ┌────────────┘ a row is refused, or locked
       └──▶ suspect                                  set aside ──▶ being written

- *waiting*: behind another event of its key (order per key only); the publisher has never seen it.
- *offered*: with the publisher, or about to be handed over; its outcome is not known.
- *undecided*: timed out or cut off; a probe of the broker decides whose fault it was.
- *suspect*: the broker may cut connections because of it; it waits for a connection apart (``relay.engine.suspects``).
- *decided*: a verdict is reached and waits for the settler; of an unreadable payload from the start.
- *being written*: part of a settle statement that is under way. Such an event is in its ``Portion`` only.
- *set aside*: the database refuses it or a row beside it (written apart), or another session has it locked (later).
- *gone*: written, or no longer this relay's (``forfeit``, from any state). A late outcome for it is ignored.

Every transition is a method of ``Batch``; no other module writes a field, and a ``Portion`` never changes. All run in
the event loop's thread and never wait, so each is a critical section of its own. ``writing`` marks a batch that a
settle or a renewal is about: they never overlap, because a renewal changes the fence that the settle is checked by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from relay.core.event import EventId, OutboxEvent, size_of
from relay.core.outcome import Acknowledged, ConnectionCut, Resolution, TimedOut
from relay.core.recorder import AttemptRecorder
from relay.core.storage import Settlement
from relay.core.tracing import BatchTrace
from relay.core.verdict import RELEASE, Bury, Deliver, Release, Retry, Verdict
from relay.engine.attempts import Attempts
from relay.engine.fences import Lease, Leased
from relay.engine.order import KeyQueues, Order

SLOW: Final = 1.0
"""Seconds without an answer, after which nothing else waits for an event."""
LATE: Final = SLOW / 2
"""Seconds without an answer, after which the last places are not for events of its kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """Verdicts of one batch under one fence, written together: being written, or set aside. Never changes."""

    batch: Batch
    settlement: Settlement
    ambiguous: bool = False
    """A statement with these verdicts was sent and its reply lost: it may have been carried out."""
    refusals: int = 0
    """How often the database refused this row when it was alone in a statement; 0 for what is not told apart."""
    locked: int = 0
    """How often in a row these rows were skipped because another session had them locked."""
    due_at: float = float("-inf")

    def __len__(self) -> int:
        return len(self.settlement)

    def part(self, event_ids: Collection[EventId]) -> Portion:
        """The verdicts on some of the events; none of them is known to be refused."""
        return replace(self, settlement=self.settlement.where(frozenset(event_ids).__contains__), refusals=0)

    def without(self, event_ids: Collection[EventId]) -> Portion:
        """The verdicts on the other events."""
        left_out = frozenset(event_ids)
        return replace(self, settlement=self.settlement.where(lambda event_id: event_id not in left_out))

    def after_lost_reply(self) -> Portion:
        """The statement may have been carried out."""
        return replace(self, ambiguous=True)

    def after_refusal(self) -> Portion:
        """The database refused the row, which was alone in its statement."""
        return replace(self, refusals=self.refusals + 1, locked=0)

    def to_be_written_alone(self) -> Portion:
        """The row was alone and not written in time: it is tried again as a refused one is."""
        return replace(self, refusals=max(self.refusals, 1))

    def after_lock(self) -> Portion:
        """Another session has the rows locked: they were just seen as they were before the statement."""
        return replace(self, ambiguous=False, locked=self.locked + 1)


class Batch(Leased):
    """The events of one claim."""

    def __init__(
        self,
        lease: Lease,
        events: Sequence[OutboxEvent],
        sent_at: float,
        *,
        last_chance: bool = False,
        order: Order = Order.NONE,
        recorder: AttemptRecorder | None = None,
        unread: Sequence[EventId] = (),
        trace: BatchTrace | None = None,
    ) -> None:
        super().__init__(lease)
        self.last_chance = last_chance
        """A lone event on its last attempt that may have killed a relay: nothing else is in flight with it."""
        self.waiting = KeyQueues(order)
        first = self.waiting.hold_back(events)
        self.offered: dict[EventId, OutboxEvent] = {event.event_id: event for event in first}
        self.suspects: dict[EventId, OutboxEvent] = {}
        self.followers: list[OutboxEvent] = []
        """Events of ``offered`` that came next in their key and are yet to be handed over."""
        self.undecided: list[tuple[OutboxEvent, TimedOut | ConnectionCut]] = []
        self.verdicts = Settlement(lease.fence)
        """Of the events that are decided. Those whose payload could not be read are released from the start."""
        self.verdicts.released += unread
        self.aside: list[Portion] = []
        self.writing = False
        self.attempts = Attempts(recorder) if recorder is not None else None
        """Attempts for the recorder, handed over once settled; None without a recorder."""
        self.trace = trace
        """The spans of its events; None when none of them is sampled."""
        self.claimed_at = lease.fence
        self.sent_at = self.offered_at = sent_at
        self._ambiguous = False
        self.handed_over = False
        """Whether the publisher knows some of it."""
        self.bytes_held = size_of(events)
        """Bytes that count against the bound on what is in flight."""

    def __len__(self) -> int:
        """How many events are held; those being written are not counted."""
        return len(self.held_ids())

    @property
    def empty(self) -> bool:
        """Whether nothing of the claim is left to do."""
        unanswered = self.offered or self.undecided or self.suspects or self.waiting
        return not (unanswered or len(self.verdicts) or self.aside or self.writing)

    @property
    def unfinished(self) -> bool:
        """Whether more is left to do than to try rows again that the database refuses or another session has locked."""
        return bool(self.unanswered or len(self.verdicts) or self.writing)

    @property
    def unanswered(self) -> int:
        """How many events have no outcome that decides."""
        return len(self.offered) + len(self.undecided) + len(self.suspects) + len(self.waiting)

    def undecided_ids(self) -> list[EventId]:
        """The events that wait for a probe."""
        return [event.event_id for event, _ in self.undecided]

    def held_ids(self) -> list[EventId]:
        """Every event that is not settled; not those being written, with which a renewal never coincides."""
        aside = (event_id for portion in self.aside for event_id in portion.settlement.event_ids())
        unanswered = (*self.offered, *self.undecided_ids(), *self.suspects, *self.waiting.ids())
        return [*unanswered, *self.verdicts.event_ids(), *aside]

    def free_bytes(self) -> int:
        """The bytes that no longer count, once: when every event offered has an outcome."""
        freed, self.bytes_held = self.bytes_held, 0
        return freed

    def trim_bytes(self) -> int:
        """Count no longer what has an outcome; returns how many bytes that is."""
        undecided = (event for event, _ in self.undecided)
        held = size_of([*self.offered.values(), *undecided, *self.waiting.events()])
        trimmed = max(self.bytes_held - held, 0)
        self.bytes_held -= trimmed
        return trimmed

    def is_slow(self, now: float) -> bool:
        """Whether all that is left of it has waited for the broker's answer for a second or more."""
        left = self.undecided or self.suspects or len(self.verdicts) or self.writing
        return bool(self.offered) and self.handed_over and not left and now - self.offered_at >= SLOW

    @property
    def suspect_bytes(self) -> int:
        """Bytes of the suspects, which count apart."""
        return size_of(self.suspects.values())

    # From offered to decided.

    def hand_over(self, events: list[OutboxEvent], now: float) -> list[OutboxEvent]:
        """Events of the batch go to the publisher at ``now``; returns them as they are sent."""
        self.offered_at = now
        self.handed_over = True
        return events if self.trace is None else self.trace.hand_over(events)

    def take_answers(self, resolutions: Sequence[Resolution], now: float) -> tuple[list[OutboxEvent], list[Resolution]]:
        """Offered -> decided for acknowledgements; returns those events, and the outcomes that are to be decided.

        Outcomes of events not offered are dropped. The caller must ``hold`` or ``decide`` the others before it waits.
        """
        pop = self.offered.pop
        acknowledged: list[OutboxEvent] = []
        others: list[Resolution] = []
        for resolution in resolutions:
            event, outcome = resolution
            if pop(event.event_id, None) is None:
                continue
            if type(outcome) is Acknowledged:
                acknowledged.append(event)
            else:
                others.append(resolution)
        if acknowledged:
            self.verdicts.delivered += (event_ids := [event.event_id for event in acknowledged])
            if self.trace is not None:
                self.trace.acknowledge(event_ids, now - self.sent_at)
            if self.waiting:
                self._follow(acknowledged)
        return acknowledged, others

    def _follow(self, acknowledged: Sequence[OutboxEvent]) -> None:
        """Waiting -> offered: the next event of each of these keys has its turn."""
        followers = self.waiting.next_after(acknowledged)
        self.offered.update((event.event_id, event) for event in followers)
        self.followers += followers

    def take_followers(self) -> list[OutboxEvent]:
        """The events that are to be handed over now."""
        followers, self.followers = self.followers, []
        return followers

    def hold(self, event: OutboxEvent, outcome: TimedOut | ConnectionCut) -> None:
        """Offered -> undecided."""
        self.undecided.append((event, outcome))

    def suspect(self, events: Iterable[OutboxEvent]) -> None:
        """Offered or undecided -> suspect."""
        for event in events:
            self.offered.pop(event.event_id, None)
            self.suspects[event.event_id] = event

    def take_turn(self, events: Iterable[OutboxEvent]) -> list[OutboxEvent]:
        """Suspect -> offered; returns those that still were suspects."""
        turn = [event for event in events if self.suspects.pop(event.event_id, None) is not None]
        self.offered.update((event.event_id, event) for event in turn)
        return turn

    def take_undecided(self) -> list[tuple[OutboxEvent, TimedOut | ConnectionCut]]:
        """The events whose fault is known now; the caller decides them before it waits for anything."""
        undecided, self.undecided = self.undecided, []
        return undecided

    def decide(self, event: OutboxEvent, verdict: Verdict) -> None:
        """Offered or undecided -> decided. What waits behind a failed event is released: it was never offered."""
        event_id = event.event_id
        match verdict:
            case Deliver():
                self.verdicts.delivered.append(event_id)
                return
            case Retry(delay, error):
                self.verdicts.retried.append((event_id, error, delay))
            case Bury(error):
                self.verdicts.buried.append((event_id, error))
            case Release():
                self.verdicts.released.append(event_id)
        self.verdicts.keep_names(event)
        if self.waiting.in_order:
            self.verdicts.released.extend(self.waiting.end(event))

    def release_suspects(self) -> None:
        """Suspect -> decided: released, and what waits behind them."""
        suspects, self.suspects = self.suspects, {}
        for event in suspects.values():
            self.decide(event, RELEASE)

    def release_waiting(self) -> None:
        """Waiting -> decided: released."""
        self.verdicts.released += self.waiting.end_all()

    def release_unanswered(self) -> None:
        """Waiting, offered, undecided or suspect -> decided: released. No publisher may hold any of them.

        But for what is in a transaction: its publisher says how that has ended.
        """
        pinned = self._pinned
        offered = [event for event in self.offered.values() if event.event_id not in pinned]
        events = [*offered, *self.suspects.values(), *(event for event, _ in self.undecided)]
        self.verdicts.released += [event.event_id for event in events]
        self.release_waiting()
        self.verdicts.keep_names(*events)
        self.offered = {event_id: self.offered[event_id] for event_id in self.offered if event_id in pinned}
        self.suspects.clear()
        self.undecided.clear()
        self.followers.clear()

    # Being written.

    def begin_writing(self) -> None:
        """A settle or a renewal begins; the other kind must wait for ``end_writing``."""
        self.writing = True

    def end_writing(self) -> None:
        """The settle or renewal is over, however it went."""
        self.writing = False

    def take_verdicts(self) -> list[Portion]:
        """Decided -> being written: one portion, or one for each lease."""
        if not len(self.verdicts):
            return []
        verdicts, self.verdicts = self.verdicts, Settlement(self._own.fence)
        ambiguous, self._ambiguous = self._ambiguous, False
        return [Portion(self, one, ambiguous=ambiguous) for one in self._under_fences(verdicts)]

    def take_aside(self, now: float) -> list[Portion]:
        """Set aside -> being written, for what is due at ``now``."""
        due = [portion for portion in self.aside if portion.due_at <= now]
        self.aside = [portion for portion in self.aside if portion.due_at > now]
        return [replace(portion, settlement=one) for portion in due for one in self._under_fences(portion.settlement)]

    def put_back(self, portion: Portion) -> None:
        """Being written -> decided: before the newer verdicts, to be written with them."""
        self.verdicts.put_before(portion.settlement)
        self._ambiguous |= portion.ambiguous

    def set_aside(self, portion: Portion, due_at: float) -> None:
        """Being written -> set aside until ``due_at``."""
        self.aside.append(replace(portion, due_at=due_at))

    def settled(self, portion: Portion) -> None:
        """Being written -> gone: the verdicts are written, or given up."""
        if self.attempts is not None:
            self.attempts.hand_over(portion.settlement, self.claimed_at)

    def forfeit(self, lost: Iterable[EventId]) -> None:
        """Any state but being written -> gone: the lease is lost, so whatever is known of the events is not ours."""
        gone = set(lost)
        if self.waiting.in_order:
            self._release_behind(gone)
        for event_id in gone:
            self.offered.pop(event_id, None)
            self.suspects.pop(event_id, None)
            self._apart.pop(event_id, None)
        self.undecided = [entry for entry in self.undecided if entry[0].event_id not in gone]
        self.verdicts = self.verdicts.where(lambda event_id: event_id not in gone)
        kept = (portion.without(gone) for portion in self.aside)
        self.aside = [portion for portion in kept if len(portion)]

    def _release_behind(self, gone: set[EventId]) -> None:
        """What waits behind an event that is no longer ours is not offered by this relay: it is released."""
        self.verdicts.released.extend(self.waiting.drop(gone))
        undecided = (event for event, _ in self.undecided)
        for event in [*self.offered.values(), *self.suspects.values(), *undecided]:
            if event.event_id in gone:
                self.verdicts.released.extend(self.waiting.lose(event))
