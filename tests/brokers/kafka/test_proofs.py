"""Proofs on a real Kafka: what a finder reads behind transactions of strangers, and what a new life ends of its old."""

from __future__ import annotations

import asyncio
import time
import uuid
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from relay.brokers.kafka import proofs
from relay.brokers.kafka.asking import KafkaAsking
from relay.brokers.kafka.carrying import Carrying
from relay.brokers.kafka.transaction import End, Produced, Transaction, begin_epoch, destroy
from relay.brokers.kafka.transactions import KafkaTransactions
from relay.core.errors import BrokerUnreachable
from relay.core.event import Fence, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Withheld
from relay.core.proofs import Begun, LeasedRow
from relay.localservers.process import free_port
from tests.brokers.harness.base import make_event
from tests.brokers.kafka.sending import Sending
from tests.support.fixtures.kafka import MakeTopic
from tests.support.options import kafka_options
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.waiting import patience

pytestmark = pytest.mark.kafka

FENCE = Fence(datetime.now(UTC))


def producer(kafka: str, name: str) -> Producer:
    """One with this transactional id, and a transaction that has begun."""
    made = Producer({"bootstrap.servers": kafka, "transactional.id": name})
    made.init_transactions(patience())
    made.begin_transaction()
    return made


def send(open_one: Producer, topic: str, key: str, value: bytes) -> None:
    open_one.produce(topic, value, key, timestamp=int(FENCE.timestamp() * 1000))
    assert open_one.flush(patience()) == 0


def last_stable(admin: AdminClient, topic: str, isolation: IsolationLevel) -> int:
    place = TopicPartition(topic, 0)
    asked = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)  # type: ignore[no-untyped-call]
    return int(asked[place].result(patience()).offset)


def test_a_proof_behind_an_open_transaction_of_a_stranger_is_waited_for(
    kafka: str, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is committed, and no reader of committed messages sees it yet: taking that for none would repeat its event."""
    place, holder = topic(), uuid.uuid4().hex
    event = make_event("orders")
    row = LeasedRow(holder, FENCE, event.event_id)
    stranger = producer(kafka, f"stranger/{holder}")
    send(stranger, place, "stranger", b"")
    own = producer(kafka, f"own/{holder}")
    [(_, value, _)] = proofs.records(holder, [Begun(FENCE, 0.0, [event])])
    send(own, place, holder, value)
    own.commit_transaction(patience())
    connection = {"bootstrap.servers": kafka}
    with monkeypatch.context() as impatient:
        impatient.setattr(proofs, "_READ_WITHIN", 1.0)
        with pytest.raises(BrokerUnreachable, match="transactions stay open"):
            proofs.read(connection, place, [row])
    stranger.abort_transaction(patience())
    assert proofs.read(connection, place, [row]) == {row: ""}


def test_a_proof_that_was_not_committed_proves_nothing(kafka: str, topic: MakeTopic) -> None:
    place, holder = topic(), uuid.uuid4().hex
    event = make_event("orders")
    row = LeasedRow(holder, FENCE, event.event_id)
    [(_, value, _)] = proofs.records(holder, [Begun(FENCE, 0.0, [event])])
    own = producer(kafka, f"own/{holder}")
    send(own, place, holder, value)
    own.abort_transaction(patience())
    assert proofs.read({"bootstrap.servers": kafka}, place, [row]) == {}


def test_a_proof_is_found_from_the_time_of_its_claim_on_whatever_stands_before(kafka: str, topic: MakeTopic) -> None:
    """Clocks of databases step, and transactions end in any order: times in the topic are in none."""
    place, holder = topic(), uuid.uuid4().hex
    fences = [Fence(FENCE + timedelta(seconds=seconds)) for seconds in (0, 3600, -3600, 0.000001)]
    rows = [LeasedRow(holder, fence, make_event("orders").event_id) for fence in fences]
    for row in rows:
        own = producer(kafka, f"own/{holder}")
        begun = Begun(row.fence, 0.0, [make_event("orders")._replace(event_id=row.event_id)])
        [(key, value, at)] = proofs.records(holder, [begun])
        own.produce(place, value, key, timestamp=at)
        own.commit_transaction(patience())
    for row in rows:
        other = row._replace(fence=Fence(row.fence + timedelta(microseconds=2)))
        assert proofs.read({"bootstrap.servers": kafka}, place, [row, other]) == {row: ""}


async def test_a_stable_relay_id_ends_its_former_life_at_once(
    kafka: str, kafka_admin: AdminClient, topic: MakeTopic
) -> None:
    """Readers of committed messages go on long before the timeout of what that one left open. It commits nothing."""
    place, prefix = topic(), uuid.uuid4().hex
    former = await asyncio.to_thread(producer, kafka, f"{prefix}/relay-a/2")
    await asyncio.to_thread(send, former, place, "key", b"left open")
    assert last_stable(kafka_admin, place, IsolationLevel.READ_COMMITTED) == 0
    changes = {"transactions": True, "relay_id": "relay-a", "transactions_prefix": prefix, "lease_timeout": 180.0}
    publisher = KafkaTransactions(kafka_options(kafka, **changes))
    await publisher.open()
    await publisher.probe(patience())
    ends = [
        last_stable(kafka_admin, place, one) for one in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    ]
    assert ends[0] == ends[1] > 0
    with pytest.raises(KafkaException):
        await asyncio.to_thread(former.commit_transaction, patience())
    await publisher.close()


@pytest.mark.parametrize("sent", [0, 1])
async def test_a_producer_that_is_fenced_while_it_is_filled_accuses_neither_event_nor_broker(
    kafka: str, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    """The client says ``_FATAL`` of the next message where none was sent before, else INVALID_PRODUCER_EPOCH.

    And that neither is fatal.
    """
    place = topic()
    changes = {"transactions": True, "relay_id": uuid.uuid4().hex, "transactions_prefix": uuid.uuid4().hex}
    publisher = KafkaTransactions(kafka_options(kafka, **changes, lease_timeout=60.0))
    await publisher.open()
    await publisher.probe(patience())
    produced, met = Carrying._produced, 0

    def fencing(carrying: Carrying, event: OutboxEvent) -> Produced:
        nonlocal met
        met += 1
        assert carrying._slot.epoch is not None
        if met == 2:
            if sent:
                carrying._slot.epoch.producer.flush(patience())
            begin_epoch(carrying._slot.config, patience())
        if met == 3:
            for _ in range(3):  # here the client fails the second message
                with suppress(KafkaException, SystemError):
                    carrying._slot.epoch.producer.flush(1.0)
        return produced(carrying, event)

    monkeypatch.setattr(Carrying, "_produced", fencing)
    fenced, sending = Sending(publisher), Sending(publisher)
    fenced.leases.fence = sending.leases.fence = FENCE
    assert (
        await fenced.send([make_event(place) for _ in range(3)])
        == [Withheld("another relay has ended this one's transactions")] * 3
    )
    assert met == 3
    assert await sending.send([make_event(place) for _ in range(3)]) == [ACKNOWLEDGED] * 3
    await publisher.close()


async def eventually_kept(asking: KafkaAsking) -> bool:
    """A broker that does not answer in time is not asked again for a while."""
    until = time.monotonic() + patience(30)
    while not await asking.keeps_proofs() and time.monotonic() < until:
        asking._look_at = 0.0
    return await asking.keeps_proofs()


def test_what_a_producer_reports_while_it_is_destroyed_is_nothing_to_a_transaction_that_has_ended(
    kafka: str, topic: MakeTopic
) -> None:
    """The event loop reads what has failed meanwhile."""
    event = make_event(topic())
    held = [begin_epoch({"bootstrap.servers": kafka, "transactional.id": uuid.uuid4().hex}, patience()).producer]
    transaction = Transaction(
        [event],
        lambda _: [],
        "",
        lambda one: (one.event_type, b"", None, [], 0),
        list[None],
        seconds=patience(),
        receipts=False,
        limit=1_000_000,
    )
    assert transaction.run(held[0]) == (End.COMMITTED, True)
    held[0].begin_transaction()
    held[0].produce(event.event_type, b"", on_delivery=partial(transaction._report, event))
    destroy(held)
    assert (held, transaction.error, transaction.failed) == ([], None, {})


async def test_a_client_that_is_late_to_say_that_no_answer_came_ends_nothing() -> None:
    """Whatever is asked: the reaper knows this error, and takes no other one."""
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        await asyncio.to_thread(proofs.answered, Future[None](), 0.01)


async def test_proofs_cannot_be_read_from_a_broker_that_hangs(kafka: str) -> None:
    """BrokerUnreachable, for which expired leases wait; any other error would end the relay."""
    with TcpProxy(int(kafka.rpartition(":")[2])) as between:
        asking = KafkaAsking(kafka_options(f"127.0.0.1:{between.port}", transactions_prefix=uuid.uuid4().hex))
        await asking.open()
        between.set(Mode.SILENCE)
        with pytest.raises(BrokerUnreachable):
            await asking.proven([LeasedRow("a", FENCE, make_event("none").event_id)])
        await asking.close()


async def test_a_relay_without_transactions_waits_only_for_proofs_that_it_has_seen(kafka: str) -> None:
    """Expired leases do not wait for a broker that has not answered since the start: CONTRACT 2.4."""
    prefix = uuid.uuid4().hex
    away = f"127.0.0.1:{free_port()}"
    asking = KafkaAsking(kafka_options(away, transactions_prefix=prefix))
    await asking.open()
    assert not await asking.keeps_proofs()
    began = time.monotonic()
    assert not await asking.keeps_proofs()
    assert time.monotonic() - began < patience(1)
    await asking.close()
    there = KafkaAsking(kafka_options(kafka, transactions_prefix=prefix))
    await there.open()
    await asyncio.to_thread(proofs.ensure_topic, {"bootstrap.servers": kafka}, f"{prefix}.proofs")
    assert await eventually_kept(there)
    there._config |= {"bootstrap.servers": away}
    there._looker, there._look_at = None, 0.0
    with pytest.raises(BrokerUnreachable):
        await there.keeps_proofs()
    await there.close()


async def test_looks_for_the_topic_share_a_connection(kafka: str) -> None:
    with TcpProxy(int(kafka.rpartition(":")[2])) as between:
        asking = KafkaAsking(kafka_options(f"127.0.0.1:{between.port}", transactions_prefix=uuid.uuid4().hex))
        await asking.open()
        for _ in range(5):
            asking._look_at = 0.0
            assert not await asking.keeps_proofs()
        await asking.close()
        assert between.accepted <= 2
