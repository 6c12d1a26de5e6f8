"""Events to Kafka in transactions, each with a proof of what is in it (docs/design/exactly-once.md).

Some producers take turns, so that one commits while the others fill; each has a transactional id of its own, which
follows from RELAY_ID. What a call of ``publish_held`` hands over is one transaction, and more where Kafka refuses some.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException

from relay.brokers.kafka import proofs
from relay.brokers.kafka.carrying import Carrying
from relay.brokers.kafka.errors import FATAL_UNTIL_GRANTED
from relay.brokers.kafka.fencing import Fencings
from relay.brokers.kafka.options import KafkaOptions, connection_config, transaction_config
from relay.brokers.kafka.publisher import KafkaPublisher
from relay.brokers.kafka.transaction import Epoch, Slot, begin_epoch
from relay.core.errors import BrokerRefused, BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink, Unreachable
from relay.core.ports import Publisher, SingleDestination
from relay.core.proofs import HeldLeases, LeasedRow, Proofs
from relay.core.secrets import mask_values

_log = logging.getLogger(__name__)

PRODUCERS: Final = 4
"""Transactional ids of a relay. A finder ends these and no others, so it is never lowered."""
_INIT_WITHIN: Final = 40.0  # seconds: longer than the coordinator takes to end what was left open
_OWN_WITHIN: Final = 10.0  # seconds for the own transactions to end
_OPEN_WITHIN: Final = 5.0  # seconds for a look at the topic of proofs before the start
_GIVEN_UP_WITHIN: Final = 2.0  # seconds; what is late then has not begun, or is not committed any more
_AGAIN: Final = 1.0  # seconds between two tries to decide a transaction


def publisher_of(options: KafkaOptions) -> Publisher:
    """The publisher for these options."""
    return KafkaTransactions(options) if options.transactions else KafkaPublisher(options)


class KafkaTransactions(KafkaPublisher, Proofs):
    """See the module's text."""

    def __init__(self, options: KafkaOptions) -> None:
        super().__init__(options)
        self._topic = proofs.topic_of(options.transactions_prefix)
        self._slots: list[Slot] = []
        self._free: asyncio.Queue[Slot] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(3 * PRODUCERS, "kafka-transactions")
        self._carried: dict[asyncio.Task[None], Carrying] = {}
        self._preparing: asyncio.Task[None] | None = None
        self._prepared = False
        self._fencings = Fencings(options.relay_id)

    @property
    def keeps_runs(self) -> bool:
        """A transaction is stored as a whole or not at all."""
        return self._options.in_order

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

    def config_of(self, holder: str, number: int) -> dict[str, Any]:
        """The configuration of one transactional id."""
        config = self._config | transaction_config(self._options)
        name = f"{self._options.transactions_prefix}/{holder}/{number}"
        return config | {"transactional.id": name, "error_cb": self._note_error}

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Not without leases."""
        raise NotImplementedError

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        """Begin as soon as a producer is free."""
        slot = await self._take()
        carrying = Carrying(self, self._options, slot, sink, holding)
        task = asyncio.get_running_loop().create_task(carrying.carry(events))
        self._carried[task] = carrying
        task.add_done_callback(partial(self._carried_out, slot))

    def _carried_out(self, slot: Slot, task: asyncio.Task[None]) -> None:
        del self._carried[task]
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
        if self._preparing is None or self._preparing.done():
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())
        try:
            await asyncio.wait_for(asyncio.shield(self._preparing), timeout)
        except TimeoutError:
            raise BrokerUnreachable("the transactions of this relay's former life are being ended") from None
        except ConfigError as error:
            raise BrokerRefused(str(error)) from None

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
                slot.epoch = await self.in_thread(begin_epoch, slot.config, _INIT_WITHIN)
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

    def drop(self, slot: Slot) -> None:
        """Its next transaction begins with a new epoch."""
        if slot.epoch is not None:
            self.in_thread(slot.drop())

    async def _take(self) -> Slot:
        slot = await self._free.get()
        slot.busy = True
        return slot

    def _put_back(self, slot: Slot) -> None:
        slot.busy = False
        self._free.put_nowait(slot)

    async def end_holder(self, holder: str) -> None:
        """End the epochs of all of the holder's transactional ids."""
        if holder != self._options.relay_id:
            configs = [self.config_of(holder, number) for number in range(PRODUCERS)]
            ended = (self.in_thread(_end_epoch, config) for config in configs)
            await self._asked(asyncio.gather(*ended), f"transactions of {holder}")
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

    async def proven(self, rows: Sequence[LeasedRow]) -> frozenset[LeasedRow]:
        """Read the topic of proofs up to its end."""
        connection = await self._connection()
        proven: frozenset[LeasedRow] = await self._asked(
            self.in_thread(proofs.read, connection, self._topic, rows), self._topic
        )
        return proven

    async def decide(self, slot: Slot, rows: Iterable[LeasedRow]) -> frozenset[LeasedRow]:
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

    async def abandon(self, reason: str) -> None:
        """Give up what is not being committed."""
        lost = Unreachable(reason)
        ending = [task for task, one in self._carried.items() if one.give_up(lost)]
        if ending:
            await asyncio.wait(ending, timeout=_GIVEN_UP_WITHIN)

    async def close(self) -> None:
        """Abandon what is left. What is being committed is decided by who finds its lease."""
        for one in self._carried.values():
            one.leave()
        await super().close()
        self._fencings.stop()
        tasks = [*self._carried, *([self._preparing] if self._preparing else [])]
        for task in tasks:
            task.cancel()
        for slot in self._slots:
            self.drop(slot)
        self._threads.shutdown(wait=False)

    def twin(self) -> Publisher:
        """The same producers: a connection that is cut is held against no event, since all share it."""
        return _SameProducers(self)

    def in_thread(self, work: Any, *arguments: Any) -> asyncio.Future[Any]:  # noqa: ANN401 - as the work returns
        """Run what blocks in a thread of its own."""
        return asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    async def _connection(self) -> dict[str, Any]:
        await self._renew()
        return connection_config(self._config) | {"log_level": 0}  # its lines go straight to standard error

    def _clients(self) -> Iterable[Any]:
        return (*super()._clients(), *self._slots)

    async def _asked(self, answer: Any, what: str) -> Any:  # noqa: ANN401 - as the answer
        try:
            return await answer
        except KafkaException as error:
            raise BrokerUnreachable(self._text(error, what)) from None

    def _text(self, error: KafkaException, what: str) -> str:
        code = error.args[0].name()
        prefix = self._options.transactions_prefix
        advice = f"; grant WRITE and DESCRIBE on transactional ids that begin with {prefix}/"
        advice = advice if code in FATAL_UNTIL_GRANTED else ""
        return mask_values(f"{what}: {code}: {error.args[0].str()}{advice}", self._config)


class _SameProducers(SingleDestination, Proofs):
    """What it hands over is abandoned and closed with the publisher that the producers belong to."""

    name = KafkaTransactions.name

    def __init__(self, producers: KafkaTransactions) -> None:
        self._producers = producers

    @property
    def keeps_runs(self) -> bool:
        return self._producers.keeps_runs

    async def open(self) -> None:
        pass

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        raise NotImplementedError

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        await self._producers.publish_held(events, sink, holding)

    async def probe(self, timeout: float) -> None:
        await self._producers.probe(timeout)

    async def end_holder(self, holder: str) -> None:
        await self._producers.end_holder(holder)

    async def proven(self, rows: Sequence[LeasedRow]) -> frozenset[LeasedRow]:
        return await self._producers.proven(rows)

    async def abandon(self, reason: str) -> None:
        pass

    async def close(self) -> None:
        pass

    def twin(self) -> Publisher:
        return self


def _end_epoch(config: dict[str, Any]) -> None:
    begin_epoch(config, _INIT_WITHIN)
