"""Events to Kafka in transactions, each with a proof of what is in it (docs/design/exactly-once.md).

Some producers take turns, so that one commits while the others fill; each has a transactional id of its own, which
follows from RELAY_ID. What a call of ``publish_held`` hands over is one transaction, together with the calls that come
while all producers are busy or, of a backlog, while another is being filled; and more where Kafka refuses some.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException

from relay.brokers.kafka import proofs
from relay.brokers.kafka.asking import INIT_WITHIN, PRODUCERS, KafkaAsking
from relay.brokers.kafka.carrying import Carrying
from relay.brokers.kafka.living_twin import Fencings
from relay.brokers.kafka.options import KafkaOptions
from relay.brokers.kafka.publisher import KafkaPublisher
from relay.brokers.kafka.together import Together
from relay.brokers.kafka.transaction import Epoch, Slot, begin_epoch, destroy, keeps_epoch
from relay.core.errors import BrokerRefused, BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink, Unreachable, Withheld
from relay.core.ports import Publisher
from relay.core.proofs import HeldLeases, LeasedRow, Proofs, Proven
from relay.core.tasks import ended

_log = logging.getLogger(__name__)

_OWN_WITHIN: Final = 10.0  # seconds for the own transactions to end
_OPEN_WITHIN: Final = 5.0  # seconds for a look at the topic of proofs before the start
_GIVEN_UP_WITHIN: Final = 2.0  # seconds; what is late then has not begun, or is not committed any more
_AGAIN: Final = 1.0  # seconds between two tries to decide a transaction
_TURN: Final = 0.05  # seconds; one that is filled longer than that keeps no other from beginning


def publisher_of(options: KafkaOptions) -> Publisher:
    """The publisher for these options."""
    return KafkaTransactions(options) if options.transactions else KafkaAsking(options)


class KafkaTransactions(KafkaAsking, Proofs):
    """See the module's text."""

    def __init__(self, options: KafkaOptions) -> None:
        super().__init__(options)
        self._slots: list[Slot] = []
        self._free: asyncio.Queue[Slot] = asyncio.Queue()
        self._carried: dict[asyncio.Task[None], Carrying] = {}
        self._waiting: Together | None = None
        """What the next free producer carries."""
        self._taking: asyncio.Task[None] | None = None
        """It waits for that producer."""
        self._started = asyncio.Event()
        self._turn = asyncio.Event()
        """No transaction of a backlog is being filled, or what waits for that has no room for more."""
        self._turn.set()
        self._preparing: asyncio.Task[None] | None = None
        self._prepared = False
        self._unprepared = "the transactions of this relay's former life are being ended"
        self._fencings = Fencings(options.relay_id, self._goes_on)
        self._others: Sequence[str] | None = ()
        """Living relays of the table that leave no proofs; None where that is not known."""

    async def open(self) -> None:
        """Check the configuration, and the topic of proofs where the broker answers. Raises ConfigError."""
        if self._slots:
            return
        await super().open()
        for number in range(PRODUCERS):
            slot = Slot(self.config_of(self._options.relay_id, number))
            self._slots.append(slot)
            self._free.put_nowait(slot)
        self._fencings.start()
        with suppress(KafkaException, TimeoutError, BrokerUnreachable):  # the probe says so, and tries again
            async with asyncio.timeout(_OPEN_WITHIN):
                await self.in_thread(proofs.ensure_topic, await self._connection(), self._topic)

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Not without leases."""
        raise NotImplementedError

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        """Begin as soon as a producer is free, together with what waits for one."""
        if self.plain:
            await super().publish(events, sink)
            return
        while self._waiting is not None and not self._waiting.takes(events):
            self._started.clear()
            self._turn.set()
            await self._started.wait()
        if self._waiting is None:
            self._waiting = Together()
        if self._taking is None or self._taking.done():
            self._taking = asyncio.get_running_loop().create_task(self._start_next())
        self._waiting.add(events, sink, holding)

    async def publish_alone(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        """As ``publish_held``, in a transaction with nothing else: whose fault a failure is must be seen."""
        if self.plain:
            await super().publish(events, sink)
            return
        self._carry(await self._take(), events, sink, holding)

    async def _start_next(self) -> None:
        slot = await self._take()
        if self._waiting is not None and self._waiting.grows:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TURN):
                    await self._turn.wait()
            self._turn.clear()
        if (together := self._let_go()) is None:
            self._put_back(slot)
        else:
            self._carry(slot, together.events, together.sink, together)

    def _let_go(self) -> Together | None:
        """What waited; another may wait from now on."""
        together, self._waiting = self._waiting, None
        self._started.set()
        return together

    def _carry(self, slot: Slot, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        carrying = Carrying(self, self._options, slot, sink, holding)
        task = asyncio.get_running_loop().create_task(carrying.carry(events))
        self._carried[task] = carrying
        task.add_done_callback(partial(self._carried_out, slot))

    @property
    def plain(self) -> bool:
        """Whether events go without transactions."""
        return bool(self._others)

    async def former_ended(self) -> bool:
        """Once every transactional id is this relay's; not where its former life may have published without."""
        return self._prepared and not self.plain

    def beside(self, relays: Sequence[str] | None) -> None:
        """See ``Proofs``; said once for each change."""
        if relays == self._others:
            return
        if relays:
            message = "relays without KAFKA_TRANSACTIONS=true, or older ones, live: %s. Until they are gone this relay "
            message += "publishes without transactions, too: at least once"
            _log.warning(message, ", ".join(relays), extra={"action": "transactions_off"})
        elif relays is None:
            message = "the list of relays (extension fleet) is missing or cannot be read: whether all relays have "
            message += "KAFKA_TRANSACTIONS is not seen, and one without it may repeat events; run relay-cli check"
            _log.warning(message, extra={"action": "transactions_unwatched"})
        elif self.plain:
            _log.info("every relay has KAFKA_TRANSACTIONS: exactly once", extra={"action": "transactions_on"})
        self._others = relays

    def filled(self) -> None:
        """A transaction has all of its messages: what waits may begin."""
        self._turn.set()

    def _carried_out(self, slot: Slot, task: asyncio.Task[None]) -> None:
        del self._carried[task]
        self.filled()
        self._put_back(slot)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a transaction ended unexpectedly", exc_info=error, extra={"action": "publisher_error"})

    async def probe(self, timeout: float) -> None:
        """Ask for metadata; answered once the topic of proofs is there and every transactional id is this relay's."""
        if self._fencings.twin:
            raise BrokerRefused(self._fencings.twin)
        await super().probe(timeout)
        if self._prepared:
            return
        if self._preparing is None:
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())
        if not await ended(self._preparing, timeout):
            raise BrokerUnreachable(self._unprepared)
        prepared, self._preparing = self._preparing, None
        try:
            prepared.result()
        except ConfigError as error:
            raise BrokerRefused(str(error)) from None
        except BrokerUnreachable as error:
            self._unprepared = str(error)  # until the next try has ended
            raise

    async def _prepare(self) -> None:
        try:
            await self.in_thread(proofs.ensure_topic, await self._connection(), self._topic)
        except KafkaException as error:
            raise BrokerUnreachable(self._text(error, f"the topic of proofs {self._topic}")) from None
        await asyncio.gather(*(self.epoch(slot) for slot in self._slots if slot.epoch is None))
        self._prepared = True

    async def epoch(self, slot: Slot) -> Epoch:
        """The slot's epoch, a new one where it has none. Raises BrokerUnreachable."""
        if slot.epoch is None:
            if self._fencings.twin:
                raise BrokerRefused(self._fencings.twin)
            await self._renew()
            try:
                slot.epoch = await self.in_thread(begin_epoch, slot.config, INIT_WITHIN)
            except KafkaException as error:
                raise BrokerUnreachable(self._text(error, slot.config["transactional.id"])) from None
        return slot.epoch

    def fenced(self, slot: Slot, *, in_force: bool) -> None:
        """Another relay has ended the slot's epoch: the others' are taken for ended, too.

        ``in_force``: although the leases of its transaction were.
        """
        if slot.epoch is not None:
            self._fencings.count(slot.epoch.since, in_force=in_force)
        for one in self._slots:
            if one is slot or not one.busy:
                self.drop(one)

    async def _goes_on(self) -> bool:
        """Whether no other relay of this id has begun an epoch since this one has begun its last."""
        while True:
            with suppress(KafkaException):
                return bool(await self.in_thread(keeps_epoch, self._slots[0].config, INIT_WITHIN, self._topic))
            await asyncio.sleep(_AGAIN)

    def drop(self, slot: Slot) -> None:
        """Its next transaction begins with a new epoch."""
        if slot.epoch is not None:
            held, slot.epoch = [slot.epoch.producer], None
            self.in_thread(destroy, held)

    async def _take(self) -> Slot:
        slot = await self._free.get()
        slot.busy = True
        return slot

    def _put_back(self, slot: Slot) -> None:
        slot.busy = False
        self._free.put_nowait(slot)

    async def keeps_proofs(self) -> bool:
        """It leaves some itself."""
        return True

    async def end_holder(self, holder: str) -> None:
        """As each relay does; its own only once its transactions have ended."""
        if holder != self._options.relay_id:
            await super().end_holder(holder)
            return
        if any(slot.in_doubt for slot in self._slots):
            raise BrokerUnreachable("a transaction of this relay is not decided yet")
        taken: list[Slot] = []
        try:
            async with asyncio.timeout(_OWN_WITHIN):
                for _ in self._slots:
                    taken.append(await self._take())  # noqa: PERF401 - what is taken is put back
            for slot in taken:
                self.drop(slot)
            await asyncio.gather(*map(self.epoch, taken))
        except TimeoutError:
            raise BrokerUnreachable("this relay's own transactions have not ended yet") from None
        finally:
            for slot in taken:
                self._put_back(slot)

    async def decide(self, slot: Slot, rows: Iterable[LeasedRow]) -> Proven:
        """What became of a transaction of the slot whose commit was asked for; as a finder finds out."""
        slot.in_doubt = True
        self.drop(slot)
        wanted = list(rows)
        while True:
            try:
                await self.epoch(slot)
                proven = await self.proven(wanted)
            except BrokerUnreachable as error:
                _log.warning("a transaction is not decided yet: %s", error, extra={"action": "transaction_undecided"})
                await asyncio.sleep(_AGAIN)
            else:
                slot.in_doubt = False
                return proven

    def take_back(self, reason: str) -> None:
        """What waits for a producer."""
        if (together := self._let_go()) is not None:
            together.resolve_all(Withheld(reason))

    async def abandon(self, reason: str) -> None:
        """Give up what is not being committed."""
        lost = Unreachable(reason)
        if (together := self._let_go()) is not None:
            together.resolve_all(lost)
        ending = [task for task, one in self._carried.items() if one.give_up(lost)]
        await super().abandon(reason)
        if ending:
            await asyncio.wait(ending, timeout=_GIVEN_UP_WITHIN)

    async def close(self) -> None:
        """Abandon what is left. What is being committed is decided by who finds its lease."""
        self.take_back("the publisher is closed")
        for one in self._carried.values():
            one.leave()
        await KafkaPublisher.close(self)
        self._fencings.stop()
        tasks = [*self._carried, *(task for task in (self._preparing, self._taking) if task)]
        for task in tasks:
            task.cancel()
        for slot in self._slots:
            self.drop(slot)
        self._end()

    def twin(self) -> Publisher:
        """The same producers: a connection that is cut is held against no event, since all share it."""
        return _SameProducers(self, self._options)

    def _clients(self) -> Iterable[Any]:
        return (*super()._clients(), *self._slots)


class _SameProducers(KafkaPublisher, Proofs):
    """What it hands over in transactions is abandoned with the publisher that the producers belong to."""

    def __init__(self, producers: KafkaTransactions, options: KafkaOptions) -> None:
        super().__init__(replace(options, max_attempts=1))
        self._producers = producers

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        await (
            self.publish(events, sink)
            if self._producers.plain
            else self._producers.publish_alone(events, sink, holding)
        )

    async def former_ended(self) -> bool:
        return await self._producers.former_ended()

    def beside(self, relays: Sequence[str] | None) -> None:
        pass  # the producers know

    async def keeps_proofs(self) -> bool:
        return True

    async def end_holder(self, holder: str) -> None:
        await self._producers.end_holder(holder)

    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        return await self._producers.proven(rows)
