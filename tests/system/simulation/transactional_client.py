"""What ``relay.brokers.kafka.transactions`` does, written down once more: librdkafka knows no virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from relay.brokers.kafka.together import Together
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Permanent, Transient, Unreachable, Withheld
from relay.core.ports import Publisher, SingleDestination
from relay.core.proofs import HeldLeases, LeasedRow, Proofs, Proven
from tests.system.simulation.broker import Answer, Client
from tests.system.simulation.carrying import Carrying
from tests.system.simulation.database import name_of
from tests.system.simulation.ledger import REFUSED_FOR_GOOD
from tests.system.simulation.transactional_broker import Entry, Opened, TransactionalBroker

SLOTS = 2
_READ_WITHIN = 30.0
_OWN_WITHIN = 10.0
_PAUSE = 0.1


class Slot:
    """One transactional id of a client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch: tuple[int, float] | None = None
        """With the time after which it began."""
        self.number = 0
        self.in_doubt = False


class TransactionalClient(Client, Proofs):
    """What ``relay.brokers.kafka.transactions`` does, and the rules that a mutant breaks."""

    reads_to_stable: ClassVar[bool] = False
    believes: ClassVar[tuple[str, ...]] = ("committed",)
    lost_is_aborted: ClassVar[bool] = False
    proof_apart: ClassVar[bool] = False

    def __init__(self, broker: TransactionalBroker, *values: Any, **named: Any) -> None:
        super().__init__(broker, *values, **named)
        self.transactions = broker
        self.relay_id = name_of(self.name)
        self.lease = 0.0
        self.slots = [Slot(f"{self.relay_id}/{number}") for number in range(SLOTS)]
        self.free: deque[Slot] = deque(self.slots)
        self._carried: dict[asyncio.Task[None], Carrying] = {}
        self.waiting: Together | None = None
        self._taking: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._prepared = False
        self._freed = asyncio.Event()

    @property
    def timeout(self) -> float:
        """Of a transaction."""
        return self.lease / 3

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        while self.waiting is not None and not self.waiting.takes(events):
            self._started.clear()
            await self._started.wait()
        if self.waiting is None:
            self.waiting = Together()
        if self._taking is None or self._taking.done():
            self._taking = self.process.create_task(self._start_next())
        self.waiting.add(events, sink, holding)

    async def publish_alone(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        self._carry(await self._take(), events, sink, holding)

    async def _start_next(self) -> None:
        slot = await self._take()
        if (together := self._let_go()) is None:
            self._put_back(slot)
        else:
            self._carry(slot, together.events, together.sink, together)

    def _let_go(self) -> Together | None:
        together, self.waiting = self.waiting, None
        self._started.set()
        return together

    def _carry(self, slot: Slot, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        carrying = Carrying(self, slot, sink, holding)
        task = self.process.create_task(carrying.carry(events))
        self._carried[task] = carrying
        task.add_done_callback(lambda task: self._carried_out(task, slot))

    def _carried_out(self, task: asyncio.Task[None], slot: Slot) -> None:
        del self._carried[task]
        self._put_back(slot)
        if not task.cancelled():
            task.result()

    async def _take(self) -> Slot:
        while not self.free:
            self._freed.clear()
            await self._freed.wait()
        return self.free.popleft()

    def _put_back(self, *slots: Slot) -> None:
        self.free.extend(slots)
        self._freed.set()

    async def probe(self, timeout: float) -> None:
        await super().probe(timeout)
        if not self._prepared:
            for slot in self.slots:
                await self.epoch(slot)
            self._prepared = True

    async def ask(self, request: Callable[[], Any]) -> Any:
        """One request and its answer. Raises BrokerUnreachable where either is lost."""
        broker, answer = self.transactions, self.process.create_future()

        def arrive() -> None:
            if self._reachable():
                result = request()
                broker.scheduler.after(broker.latency() + max(broker.late, default=0.0), lambda: leave(result))

        def leave(result: Any) -> None:
            if self._reachable() and not self.process.dead:
                self.process.call_soon(_hear, answer, result)

        timer = self.process.call_later(min(self._timeout, self.timeout), _give_up, answer)
        broker.scheduler.after(broker.latency(), arrive)
        try:
            return await answer
        finally:
            timer.cancel()

    def _reachable(self) -> bool:
        return not (self.transactions.is_away(self.name) or self.transactions.is_silent(self.name))

    async def epoch(self, slot: Slot) -> tuple[int, float]:
        if slot.epoch is None:
            epoch = await self.ask(lambda: self.transactions.init(slot.name))
            slot.epoch = (epoch, self.process.time())
        return slot.epoch

    def opened(self, number: int, events: Sequence[OutboxEvent], rows: Mapping[LeasedRow, str]) -> Opened:
        """A transaction with its proof."""
        return Opened(number, events, Entry({} if self.proof_apart else rows))

    async def prove_apart(self, rows: Mapping[LeasedRow, str]) -> None:
        """Not done, but by a mutant: the proof in another request than the commit."""
        if self.proof_apart:
            with suppress(BrokerUnreachable):
                await self.ask(lambda: self.transactions.proofs.append(Entry(rows, "committed")))

    def blame(self, events: Iterable[OutboxEvent]) -> None:
        """Their attempts are explained."""
        self.transactions.ledger.blame.update(event.event_id for event in events)

    def refusal(self, event: OutboxEvent, answer: Answer) -> Outcome:
        """The outcome of an event that the broker refuses."""
        self.blame([event])
        if answer is Answer.BURY:
            self.transactions.ledger.final.add(event.event_id)
            return Permanent(REFUSED_FOR_GOOD, "too large")
        return Transient("LEADER", "changed")

    async def stall(self) -> None:
        """A thread is busy before it sends."""
        broker = self.transactions
        if broker.rng.random() < broker.busy:
            await asyncio.sleep(broker.rng.uniform(0.0, self.lease / 3))

    def fenced(self) -> None:
        """The idle ones are taken for ended, too."""
        for one in self.free:
            one.epoch = None

    async def former_ended(self) -> bool:
        return self._prepared

    def beside(self, relays: Sequence[str] | None) -> None:
        raise NotImplementedError

    async def keeps_proofs(self) -> bool:
        return True

    async def end_holder(self, holder: str) -> None:
        if holder != self.relay_id:
            for number in range(SLOTS):
                await self.ask(partial(self.transactions.init, f"{holder}/{number}"))
            return
        if any(slot.in_doubt for slot in self.slots):
            raise BrokerUnreachable("not decided yet")
        taken: list[Slot] = []
        try:
            async with asyncio.timeout(_OWN_WITHIN):
                for _ in self.slots:
                    taken.append(await self._take())  # noqa: PERF401 - what is taken is put back
            for slot in taken:
                slot.epoch = None
                await self.epoch(slot)
        except TimeoutError:
            raise BrokerUnreachable("own transactions have not ended yet") from None
        finally:
            self._put_back(*taken)

    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        broker, until = self.transactions, self.process.time() + _READ_WITHIN
        end = await self.ask(broker.stable if self.reads_to_stable else lambda: len(broker.proofs))
        while self.believes == ("committed",) and await self.ask(broker.stable) < end:
            if self.process.time() > until:
                raise BrokerUnreachable("transactions stay open")
            await asyncio.sleep(_PAUSE)

        def read() -> Proven:
            known = [one.rows for one in broker.proofs[:end] if one.state in self.believes]
            return {row: one[row] for row in rows for one in known if row in one}

        proven: Proven = await self.ask(read)
        return proven

    async def abandon(self, reason: str) -> None:
        lost = Unreachable(reason)
        if (together := self._let_go()) is not None:
            together.resolve_all(lost)
        ending = [task for task, one in self._carried.items() if one.give_up(lost)]
        if ending:
            await asyncio.wait(ending, timeout=2.0)

    def take_back(self, reason: str) -> None:
        if (together := self._let_go()) is not None:
            together.resolve_all(Withheld(reason))

    async def close(self) -> None:
        self.take_back("closed")
        for task in (*self._carried, *([self._taking] if self._taking else [])):
            task.cancel()

    def twin(self) -> Client:
        return _Same(self)  # type: ignore[return-value]


class _Same(SingleDestination, Proofs):
    """The same producers, for suspects."""

    name = "simulated"
    keeps_runs = False

    def __init__(self, client: TransactionalClient) -> None:
        self._client = client

    async def open(self) -> None: ...

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        raise NotImplementedError

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        await self._client.publish_alone(events, sink, holding)

    async def probe(self, timeout: float) -> None:
        await self._client.probe(timeout)

    async def former_ended(self) -> bool:
        return False

    def beside(self, relays: Sequence[str] | None) -> None: ...

    async def keeps_proofs(self) -> bool:
        return True

    async def end_holder(self, holder: str) -> None: ...

    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        return await self._client.proven(rows)

    async def abandon(self, reason: str) -> None: ...

    async def close(self) -> None: ...

    def twin(self) -> Publisher:
        return self


def _hear(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(BrokerUnreachable("no answer"))
