"""What one call hands over, on its way through transactions; used by ``relay.brokers.kafka.transactions``.

An event that Kafka refuses aborts the transaction, gets its outcome, and the others go into the next one. Where a whole
batch is refused for one message, or no message is named, the transaction is halved until one is alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from relay.brokers.kafka.errors import BATCH_REFUSALS, FATAL_UNTIL_GRANTED, FENCED, classify
from relay.brokers.kafka.headers import formatted_headers, message_headers
from relay.brokers.kafka.offer import Failure
from relay.brokers.kafka.options import KafkaOptions, settle_margin, transaction_timeout
from relay.brokers.kafka.proofs import records, topic_of
from relay.brokers.kafka.stamps import REFUSED_TIME, RefusedTimes, Stamp
from relay.brokers.kafka.transaction import End, Epoch, Produced, Slot, Transaction
from relay.core.clock import steady_seconds
from relay.core.errors import BrokerUnreachable
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    ConnectionCut,
    Outcome,
    OutcomeSink,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)
from relay.core.proofs import Begun, HeldLeases, LeasedRow, Proven

_OF_THE_CLIENT: Final = frozenset({"_STATE", "_CONFLICT", "_PREV_IN_PROGRESS", "_PURGE_QUEUE", "_PURGE_INFLIGHT"})
_NOT_IN_TIME: Final = Withheld("its lease is of before this producer's epoch, or does not last for a transaction")
_OF_ANOTHER: Final = "_INVALID_DIFFERENT_RECORD"
_BEHIND: Final = Withheld("an earlier event of its key has failed")


class Producers(Protocol):
    """What takes turns."""

    @property
    def refused_times(self) -> RefusedTimes:
        """Which times topics refuse."""

    @property
    def refused_topic(self) -> Callable[[str], Permanent | None]:
        """Why no message is sent to this topic."""

    async def epoch(self, slot: Slot) -> Epoch:
        """The slot's epoch, a new one where it has none. Raises BrokerUnreachable."""

    def drop(self, slot: Slot) -> None:
        """Its next transaction begins with a new epoch."""

    def filled(self) -> None:
        """A transaction has all of its messages."""

    def fenced(self, slot: Slot, *, in_force: bool) -> None:
        """Another relay has ended its epoch; ``in_force``: although the leases of its transaction were."""

    async def decide(self, slot: Slot, rows: Iterable[LeasedRow]) -> Proven:
        """Those rows of an undecided transaction of the slot that are committed."""

    def in_thread(self, work: Any, *arguments: Any) -> asyncio.Future[Any]:  # noqa: ANN401 - as the work returns
        """Run what blocks."""


class Carrying:
    """``carry`` once. Everything but ``Transaction.run`` happens in the event loop's thread."""

    def __init__(
        self, publisher: Producers, options: KafkaOptions, slot: Slot, sink: OutcomeSink, holding: HeldLeases
    ) -> None:
        self._publisher, self._options = publisher, options
        self._slot, self._sink, self._holding = slot, sink, holding
        self._lost: Unreachable | None = None
        self._transaction: Transaction | None = None
        self._parts: deque[Sequence[OutboxEvent]] = deque()
        self._ended_keys: set[str] = set()
        self._own_time = Stamp(options.timestamp) is Stamp.CREATED_AT
        self._restamped: set[EventId] = set()
        """Events whose own time no message can have, or was refused."""

    def give_up(self, lost: Unreachable) -> bool:
        """Nothing more is begun; false where a transaction may be committed already."""
        self._lost = lost
        return self._transaction is None or self._transaction.give_up()

    def leave(self) -> None:
        """The process ends."""
        if self._transaction is not None:
            self._transaction.leave()

    async def carry(self, events: Sequence[OutboxEvent]) -> None:
        """Resolve every event, each once it is known what became of it."""
        failed_before = [event for event in events if event.last_code is not None]
        fresh = [event for event in events if event.last_code is None]
        self._parts.extend(part for part in (fresh, failed_before) if part)
        try:
            while self._parts:
                await self._next(self._parts.popleft())
        finally:
            rest = [event for part in self._parts for event in part]
            if rest:
                self._sink([(event, self._lost or Transient("_FAIL", "the transaction ended")) for event in rest])

    async def _next(self, part: Sequence[OutboxEvent]) -> None:
        """One transaction with this part."""
        part = self._sendable(part)
        if not part:
            return
        try:
            epoch = await self._publisher.epoch(self._slot)
        except BrokerUnreachable as error:
            self._lost = self._lost or Unreachable(str(error))
        if (lost := self._lost) is not None:
            self._sink([(event, lost) for event in part])
            return
        timeout = transaction_timeout(self._options)
        begun = await self._holding.begin(part, epoch.since, timeout + settle_margin(self._options))
        if sum(len(one.events) for one in begun) < len(part):
            ids = {event.event_id for one in begun for event in one.events}
            left = [event for event in part if event.event_id not in ids]
            self._sink([(event, _NOT_IN_TIME) for event in left])
            begun = self._without_gaps(begun, left)
        held = [event for one in begun for event in one.events]
        if not held:
            return
        transaction = self._transaction = self._new(held, begun, timeout)
        if self._is_lost():
            transaction.give_up()
        end, usable = await self._publisher.in_thread(transaction.run, epoch.producer)
        del epoch  # so that a producer that is dropped is destroyed in the thread that does it
        await self._ended(transaction, begun, end, usable=usable)
        self._transaction = None

    def _without_gaps(self, begun: Sequence[Begun], left: Sequence[OutboxEvent]) -> list[Begun]:
        """Without what comes behind those that are left: its key's order would be lost."""
        for event in left:
            self._end_key(event)
        behind = [event for one in begun for event in one.events if event.partition_key in self._ended_keys]
        if not behind:
            return list(begun)
        self._holding.end(event.event_id for event in behind)
        self._sink([(event, _BEHIND) for event in behind])
        kept = (one._replace(events=[event for event in one.events if event not in behind]) for one in begun)
        return [one for one in kept if one.events]

    def _is_lost(self) -> bool:
        return self._lost is not None

    def _sendable(self, part: Sequence[OutboxEvent]) -> list[OutboxEvent]:
        """Without those behind a failed one of their key, and those that no topic can take."""
        topics = {topic: self._publisher.refused_topic(topic) for topic in {event.event_type for event in part}}
        if not self._ended_keys and not any(topics.values()):
            return list(part)
        refused: list[tuple[OutboxEvent, Outcome]] = []
        sendable = []
        for event in part:
            outcome: Outcome | None = topics[event.event_type]
            if event.partition_key in self._ended_keys:
                outcome = _BEHIND
            if outcome is None:
                sendable.append(event)
                continue
            self._end_key(event)
            refused.append((event, outcome))
        if refused:
            self._sink(refused)
        return sendable

    def _new(self, held: Sequence[OutboxEvent], begun: Sequence[Begun], timeout: float) -> Transaction:
        def proofs(refused: frozenset[EventId]) -> list[tuple[str, bytes, int]]:
            left = (
                one._replace(events=[event for event in one.events if event.event_id not in refused]) for one in begun
            )
            return list(records(self._options.relay_id, [one for one in left if one.events]))

        filled = partial(asyncio.get_running_loop().call_soon_threadsafe, self._publisher.filled)
        return Transaction(
            held,
            proofs,
            topic_of(self._options.transactions_prefix),
            self._produced,
            filled,
            seconds=timeout,
            receipts=self._options.receipts,
            limit=self._options.batch_bytes,
        )

    def _produced(self, event: OutboxEvent) -> Produced:
        stamp = self._stamp(event)
        if self._options.message_format is None:
            return event.event_type, event.payload, event.partition_key, message_headers(event), stamp
        message = self._options.message_format(event)
        return event.event_type, message.payload, event.partition_key, formatted_headers(event, message), stamp

    def _stamp(self, event: OutboxEvent) -> int:
        now = self._options.now()
        if self._own_time and event.event_id not in self._restamped:
            if (stamp := self._publisher.refused_times.own_time(event, now)) is not None:
                return stamp
            self._restamped.add(event.event_id)
        return int(now * 1000)

    async def _ended(self, transaction: Transaction, begun: Sequence[Begun], end: End, *, usable: bool) -> None:
        """Tell the outcomes, and what is to be tried again."""
        error = transaction.error
        if error is not None and error.code in FENCED and not usable:
            in_force = all(one.expires_at > steady_seconds() for one in begun)
            self._publisher.fenced(self._slot, in_force=in_force)
        # What the broker has refused leaves a gap in the producer's sequence: it would refuse the next transaction.
        if not usable or transaction.failed:
            self._publisher.drop(self._slot)
        if end is End.COMMITTED and not transaction.refused:
            self._acknowledge(transaction, transaction.events)
            return
        committed = [event for event in transaction.events if event.event_id not in transaction.refused]
        if end is End.UNKNOWN:
            committed = await self._decided(begun, committed)
        if end is not End.ABORTED:
            self._acknowledge(transaction, committed)
        self._refuse(transaction)
        known = {event.event_id for event in committed} if end is not End.ABORTED else set()
        left = [one for one in transaction.events if one.event_id not in known | transaction.refused.keys()]
        self._holding.end(event.event_id for event in left)
        if left:
            self._again(transaction, left, aborted=end is End.ABORTED)

    async def _decided(self, begun: Sequence[Begun], events: Sequence[OutboxEvent]) -> list[OutboxEvent]:
        """Those of a transaction that turn out to be committed."""
        holder = self._options.relay_id
        rows = {event.event_id: LeasedRow(holder, one.fence, event.event_id) for one in begun for event in one.events}
        proven = await self._publisher.decide(self._slot, [rows[event.event_id] for event in events])
        return [event for event in events if rows[event.event_id] in proven]

    def _acknowledge(self, transaction: Transaction, events: Sequence[OutboxEvent]) -> None:
        receipts, restamped = transaction.receipts, self._restamped
        if receipts or restamped:
            ids = ((event, event.event_id) for event in events)
            self._sink([(event, Acknowledged(receipts.get(one), restamped=one in restamped)) for event, one in ids])
        elif events:
            self._sink([(event, ACKNOWLEDGED) for event in events])

    def _refuse(self, transaction: Transaction) -> None:
        """Those that the client itself did not take: they were in no transaction."""
        refused = [event for event in transaction.events if event.event_id in transaction.refused]
        self._holding.end(event.event_id for event in refused)
        for event in refused:
            self._end_key(event)
        if refused:
            self._sink([(event, transaction.refused[event.event_id]) for event in refused])

    def _again(self, transaction: Transaction, left: Sequence[OutboxEvent], *, aborted: bool) -> None:
        """What is not committed and will never be: an outcome, or another transaction."""
        failed = transaction.failed
        if self._lost is not None:
            lost = self._lost
            self._sink([(event, lost) for event in left])
            return
        if not aborted or (transaction.error is not None and not failed and _of_all(transaction.error)):
            outcome = _outcome_of_all(transaction.error)
            self._sink([(event, outcome) for event in left])
            return
        named = {event_id: one for event_id, one in failed.items() if one.code != _OF_ANOTHER}
        are_named = 0 < len(named) < len(failed)
        failed = named if are_named else failed
        if self._restamp(left, failed, are_named=are_named):
            return
        batch_refused = not are_named and any(one.code in BATCH_REFUSALS for one in failed.values())
        if (batch_refused or not failed) and len(left) > 1:
            middle = len(left) // 2
            halves = (left[middle:], left[:middle])
            # The later half first: a time that is too old there says so of all that are older.
            self._parts.extendleft(halves[::-1] if self._own_time and not self._options.in_order else halves)
            return
        if not failed:
            error = transaction.error or Failure("_FAIL", "the transaction was aborted", False)
            failed = {event.event_id: error for event in left}
        for event in left:
            if event.event_id in failed:
                self._end_key(event)
                self._sink([(event, _outcome(failed[event.event_id]))])
        self._parts.appendleft([event for event in left if event.event_id not in failed])

    def _restamp(self, left: Sequence[OutboxEvent], failed: Mapping[EventId, Failure], *, are_named: bool) -> bool:
        """Send what is left again, one of it with another time; false where no time of an event was refused.

        The client says this code of each message of a batch of which one has such a time: the latest or the oldest. Of
        several it says what it says of an invalid record, and names them.
        """
        named = {event_id for event_id, failure in failed.items() if are_named or failure.code == REFUSED_TIME}
        refused = [event for event in left if event.event_id in named - self._restamped]
        if not (refused and self._own_time):
            return False
        latest, oldest = max(refused, key=_created_at), min(refused, key=_created_at)
        one = latest if latest.created_at > (now := self._options.now()) else oldest
        for event in refused if are_named else (one,):  # and in the next claim: the epoch ends, and with it this lease
            self._publisher.refused_times.replace(event)
        if len(left) == 1:
            self._publisher.refused_times.refused(one, now)
        self._parts.appendleft(left)
        return True

    def _end_key(self, event: OutboxEvent) -> None:
        if self._options.in_order and event.partition_key:
            self._ended_keys.add(event.partition_key)


def _created_at(event: OutboxEvent) -> float:
    return event.created_at


def _of_all(error: Failure) -> bool:
    """Whether an error of a transaction has nothing to do with the messages in it."""
    return (
        error.fatal
        or error.code in _OF_THE_CLIENT
        or isinstance(classify(error.code, ""), TimedOut | ConnectionCut | Unreachable)
    )


def _outcome(failure: Failure) -> Outcome:
    """The outcome of an event that is to blame: a cut is held against no connection, which all share."""
    outcome = classify(failure.code, failure.text)
    return TimedOut(failure.code, failure.text) if isinstance(outcome, ConnectionCut | Unreachable) else outcome


def _outcome_of_all(error: Failure | None) -> Outcome:
    if error is None or error.code in FENCED:
        return Withheld("another relay has ended this one's transactions")
    if error.code in FATAL_UNTIL_GRANTED:
        return Transient(error.code, error.text)
    if error.fatal or error.code in _OF_THE_CLIENT:
        return Withheld(error.text)
    return TimedOut(error.code, error.text)
