"""What one call hands over, on its way through simulated transactions: ``relay.brokers.kafka.carrying`` once more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from relay.core.errors import BrokerUnreachable
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Outcome, OutcomeSink, TimedOut, Unreachable, Withheld
from relay.core.proofs import Begun, HeldLeases, LeasedRow
from tests.system.simulation.broker import Answer

if TYPE_CHECKING:
    from tests.system.simulation.transactional_client import Slot, TransactionalClient

_PAUSE = 0.05
_AGAIN = 1.0


class Carrying:
    """``carry`` once."""

    def __init__(self, client: TransactionalClient, slot: Slot, sink: OutcomeSink, holding: HeldLeases) -> None:
        self._client, self._slot, self._sink, self._holding = client, slot, sink, holding
        self._lost: Unreachable | None = None
        self._decided = False
        """A commit may have been asked for."""
        self._ended_keys: set[str | None] = set()
        """In order per key: keys of which an event has failed."""
        self._parts: deque[Sequence[OutboxEvent]] = deque()

    def give_up(self, lost: Unreachable) -> bool:
        """Nothing more is begun; false where a transaction may be committed already."""
        self._lost = lost
        return not self._decided

    async def carry(self, events: Sequence[OutboxEvent]) -> None:
        """Resolve every event."""
        self._parts.append(events)
        while self._parts:
            await self._next(list(self._parts.popleft()))

    async def _next(self, part: list[OutboxEvent]) -> None:
        client = self._client
        self._tell([event for event in part if event.partition_key in self._ended_keys], _BEHIND)
        part = [event for event in part if event.partition_key not in self._ended_keys]
        if not part:
            return
        try:
            epoch, since = await client.epoch(self._slot)
        except BrokerUnreachable as error:
            self._lost = self._lost or Unreachable(str(error))
        if self._lost is not None:
            self._tell(part, self._lost)
            return
        begun = await self._holding.begin(part, since, client.timeout + client.lease / 4)
        ids = {event.event_id for one in begun for event in one.events}
        left = [event for event in part if event.event_id not in ids]
        self._tell(left, Withheld("its lease"))
        begun = self._without_gaps(begun, left)
        held = [event for one in begun for event in one.events]
        if held:
            self._slot.number += 1
            await self._transaction(epoch, begun, held)

    def _without_gaps(self, begun: Sequence[Begun], left: Sequence[OutboxEvent]) -> list[Begun]:
        """Without what comes behind those that are left."""
        self._end_keys(left)
        behind = [event for one in begun for event in one.events if event.partition_key in self._ended_keys]
        self._end(behind)
        self._tell(behind, _BEHIND)
        return [one._replace(events=[event for event in one.events if event not in behind]) for one in begun]

    def _end_keys(self, events: Sequence[OutboxEvent]) -> None:
        if self._client.keeps_runs:
            self._ended_keys.update(event.partition_key for event in events if event.partition_key is not None)

    async def _transaction(self, epoch: int, begun: Sequence[Begun], held: list[OutboxEvent]) -> None:
        client, slot = self._client, self._slot
        rows = {
            one.event_id: LeasedRow(client.relay_id, each.fence, one.event_id) for each in begun for one in each.events
        }
        proof = {rows[one.event_id]: one.proof_for for one in held}
        await client.stall()
        answers = await self._produce(epoch, proof, held)
        self._decided = answers == {} and self._lost is None
        if self._decided:
            committed = await self._commit(epoch, proof)
            self._decided = False
            self._tell([event for event in held if event.event_id in committed], ACKNOWLEDGED)
            left = [event for event in held if event.event_id not in committed]
            self._end(left)
            self._tell(left, Withheld("the epoch has ended"))
            return
        try:
            await client.ask(lambda: client.transactions.abort(slot.name, epoch))
        except BrokerUnreachable:
            slot.epoch = None
        self._end(held)
        self._refuse(held, answers)

    async def _produce(
        self, epoch: int, proof: dict[LeasedRow, str], held: list[OutboxEvent]
    ) -> dict[EventId, Answer] | str:
        """What is refused, or what went wrong."""
        client, slot = self._client, self._slot
        opened = client.opened(slot.number, held, proof)
        try:
            answers = await client.ask(
                lambda: client.transactions.produce(slot.name, epoch, opened, client, client.timeout)
            )
        except BrokerUnreachable:
            return "no answer"
        if answers is None:
            slot.epoch = None
            client.fenced()
            return "fenced"
        found: dict[EventId, Answer] = answers
        return found

    async def _commit(self, epoch: int, proof: dict[LeasedRow, str]) -> frozenset[EventId]:
        """The ids that are committed; asked for again while the answer is lost."""
        client, slot = self._client, self._slot
        number = slot.number
        while True:
            try:
                done = await client.ask(lambda: client.transactions.commit(slot.name, epoch, number, client.name))
            except BrokerUnreachable:
                if client.lost_is_aborted:
                    slot.epoch = None
                    return frozenset()
                await asyncio.sleep(_PAUSE)
            else:
                break
        if done:
            await client.prove_apart(proof)
            return frozenset(row.event_id for row in proof)
        return await self._decide(list(proof))

    async def _decide(self, rows: Sequence[LeasedRow]) -> frozenset[EventId]:
        """As a finder does."""
        client, slot = self._client, self._slot
        slot.in_doubt, slot.epoch = True, None
        client.fenced()
        while True:
            try:
                await client.epoch(slot)
                proven = await client.proven(rows)
            except BrokerUnreachable:
                await asyncio.sleep(_AGAIN)
            else:
                slot.in_doubt = False
                return frozenset(row.event_id for row in proven)

    def _refuse(self, held: list[OutboxEvent], answers: dict[EventId, Answer] | str) -> None:
        """Nothing of it is committed: an outcome, or another transaction."""
        if self._lost is not None:
            self._tell(held, self._lost)
        elif answers == "fenced":
            self._tell(held, Withheld("the epoch has ended"))
        elif isinstance(answers, str) or any(one in _UNANSWERED for one in answers.values()):
            self._client.blame(held)
            self._tell(held, TimedOut("NO_ACK", "not filled in time"))
        else:
            self._slot.epoch = None  # what is refused leaves a gap in its sequence
            if len(answers) == 1 and len(held) > 1:  # a broker that refuses a batch for one message names none
                middle = len(held) // 2
                self._parts.extendleft((held[middle:], held[:middle]))
                return
            for event in held:
                if event.event_id in answers:
                    self._end_keys([event])
                    self._tell([event], self._client.refusal(event, answers[event.event_id]))
            if left := [event for event in held if event.event_id not in answers]:
                self._parts.append(left)

    def _end(self, events: Sequence[OutboxEvent]) -> None:
        self._holding.end(event.event_id for event in events)

    def _tell(self, events: Sequence[OutboxEvent], outcome: Outcome) -> None:
        if events:
            self._sink([(event, outcome) for event in events])


_BEHIND = Withheld("an earlier event of its key has failed")
_UNANSWERED = (Answer.SILENT, Answer.DROP, Answer.CUT)
