"""Transactions on librdkafka's own mock cluster: outcomes, refused events, and what is given up. No isolation there."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from relay.brokers.kafka.asking import PRODUCERS
from relay.brokers.kafka.living_twin import Fencings
from relay.brokers.kafka.proofs import records, rows_of, topic_of
from relay.brokers.kafka.transaction import NO_COORDINATOR, End, Produced, Transaction, begin_epoch
from relay.brokers.kafka.transactions import KafkaTransactions
from relay.core.clock import steady_seconds
from relay.core.errors import BrokerUnreachable
from relay.core.event import EventId, Fence, OutboxEvent, RoutedEvent
from relay.core.outcome import Acknowledged, Outcome, Permanent, Unreachable, Withheld
from relay.core.proofs import Begun, LeasedRow
from relay.localservers.broker import EmbeddedBroker
from relay.localservers.process import free_port
from tests.brokers.kafka.sending import FENCE, Leases, Sending
from tests.support.options import kafka_options
from tests.support.waiting import eventually, patience

TOPIC = "orders"
PREFIX = "db.public.events"


def event(number: int, event_type: str = TOPIC, key: str | None = None, size: int = 10) -> OutboxEvent:
    return OutboxEvent(EventId(str(uuid.UUID(int=number))), event_type, key, b"x" * size, "{}", 0, 0.0)


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topics([TOPIC, topic_of(PREFIX)])
        yield broker


@pytest.fixture
async def sending(
    embedded: EmbeddedBroker, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Sending]:
    changes = {"transactions": True, "relay_id": "relay-a", "transactions_prefix": PREFIX, "lease_timeout": 30.0}
    allowed = ("*", topic_of(PREFIX))
    options = kafka_options(embedded.url, **changes, in_order=getattr(request, "param", False), allowed_types=allowed)
    publisher = KafkaTransactions(options)
    # The mock cluster makes no topics on request and leaves the request unanswered: each opening waits five seconds.
    monkeypatch.setattr("relay.brokers.kafka.proofs.ensure_topic", lambda *_: None)
    publisher._prepared = True
    await publisher.open()
    yield Sending(publisher)
    await publisher.close()


def proofs_in(url: str) -> list[LeasedRow]:
    """All that is proven by now."""
    reader = Consumer({"bootstrap.servers": url, "group.id": "g", "enable.partition.eof": True})
    reader.assign([TopicPartition(topic_of(PREFIX), 0, 0)])
    rows: list[LeasedRow] = []
    while (message := reader.poll(patience())) is not None and message.error() is None:
        rows += [row for row, _ in rows_of(message.key(), message.value())]
    reader.close()
    return rows


async def test_a_transaction_is_acknowledged_as_a_whole_and_leaves_a_proof(
    sending: Sending, embedded: EmbeddedBroker
) -> None:
    events = [event(number) for number in range(100, 130)]
    assert all(isinstance(one, Acknowledged) for one in await sending.send(events))
    assert sending.leases.begun == [[one.event_id for one in events]]
    assert not sending.leases.ended
    proven = await asyncio.to_thread(proofs_in, embedded.url)
    assert {LeasedRow("relay-a", FENCE, one.event_id) for one in events} <= set(proven)


async def test_an_event_that_cannot_be_sent_gets_its_verdict_and_is_not_proven(
    sending: Sending, embedded: EmbeddedBroker
) -> None:
    forged, routed = event(204, topic_of(PREFIX)), RoutedEvent(*event(206, topic_of(PREFIX)))
    routed.row_type = TOPIC
    events = [event(201), event(202, "no topic"), event(203, size=11_000_000), forged, event(205), routed]
    outcomes = await sending.send(events)
    assert [one.code if isinstance(one, Permanent) else type(one) for one in outcomes] == [
        Acknowledged,
        "TOPIC_EXCEPTION",
        "MSG_SIZE_TOO_LARGE",
        "NOT_ALLOWED",
        Acknowledged,
        "NOT_ALLOWED",
    ]
    proven = {row.event_id for row in await asyncio.to_thread(proofs_in, embedded.url)}
    assert {one.event_id for one in events} & proven == {events[0].event_id, events[4].event_id}
    assert events[2].event_id in sending.leases.ended


async def test_of_a_backlog_one_transaction_is_filled_at_a_time(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes meanwhile shares the next one, until there is no room; a few events begin at once."""
    monkeypatch.setattr("relay.brokers.kafka.transactions._TURN", patience())
    publisher, sizes = sending.publisher, [len(one) for one in sending.leases.begun]
    publisher._turn.clear()  # one is being filled

    async def publish(first: int, number: int) -> None:
        events = [event(10_000 + first + one) for one in range(number)]
        await publisher.publish_held(events, sending.take, sending.leases)
        for _ in range(20):  # time to begin
            await asyncio.sleep(0)

    async def begun(*more: int) -> None:
        sizes.extend(more)
        await eventually(lambda: [len(one) for one in sending.leases.begun] == sizes, what="these have begun")

    await publish(0, 10)
    await begun(10)
    await eventually(lambda: len(sending.outcomes) == 10, what="they are acknowledged")
    publisher._turn.clear()
    await publish(100, 60)
    await publish(200, 80)
    assert len(sending.leases.begun) == len(sizes)
    publisher.filled()
    await begun(60, 80)
    await eventually(lambda: not any(slot.busy for slot in publisher._slots), what="they have ended")
    publisher._turn.clear()
    await publish(1000, 600)
    assert len(sending.leases.begun) == len(sizes)
    await publish(2000, 600)  # no room beside the others: they begin, and once theirs is filled, these
    await begun(600, 600)


async def test_a_lease_that_does_not_last_is_given_back_without_an_attempt(sending: Sending) -> None:
    events = [event(301), event(302)]
    sending.leases.short.add(events[0].event_id)
    outcomes = await sending.send(events)
    assert [type(one) for one in outcomes] == [Withheld, Acknowledged]


def test_nothing_is_asked_of_a_producer_after_a_fatal_error() -> None:
    """It can neither commit nor abort: a new epoch aborts what is open. What waits for its turn fails at once."""
    asked = []

    class Fenced:
        def begin_transaction(self) -> None: ...

        def produce(self, *_: object) -> None:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))

        def commit_transaction(self, _: float) -> None:
            asked.append("commit")

        def abort_transaction(self, _: float) -> None:
            asked.append("abort")

    one = event(350)
    produced: Produced = (TOPIC, b"", None, [], 0)
    transaction = Transaction(
        [one],
        lambda _: [],
        "proofs",
        lambda _: produced,
        lambda: asked.append("filled"),
        seconds=1,
        receipts=False,
        limit=100,
    )
    assert transaction.run(Fenced()) == (End.ABORTED, False)  # type: ignore[arg-type]
    assert (asked, transaction.refused) == (["filled"], {})


def test_without_a_coordinator_the_brokers_settings_are_named() -> None:
    """A broker that is alone cannot make Kafka's own topic of transactions by default."""
    config = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "transactional.id": "x", "log_level": 0}
    with pytest.raises(KafkaException) as raised:
        begin_epoch(config, 0.5)
    assert raised.value.args[0].code() == NO_COORDINATOR
    assert "within 0.5 s; fewer than three brokers need transaction.state.log" in raised.value.args[0].str()


async def test_a_probe_says_why_a_former_life_could_not_be_ended(
    embedded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that came later than the probe before it had waited."""
    publisher, failing = KafkaTransactions(kafka_options(embedded.url, transactions=True)), asyncio.Event()

    async def prepare() -> None:
        await failing.wait()
        raise BrokerUnreachable("no right")

    monkeypatch.setattr(publisher, "_prepare", prepare)
    await publisher.open()
    with pytest.raises(BrokerUnreachable, match="being ended"):
        await publisher.probe(1.0)
    failing.set()
    with pytest.raises(BrokerUnreachable, match="no right"):
        await publisher.probe(1.0)
    failing.clear()
    with pytest.raises(BrokerUnreachable, match="no right"):  # while it is tried again
        await publisher.probe(1.0)
    await publisher.close()


@pytest.mark.parametrize("sending", [True], indirect=True)
async def test_in_order_what_is_behind_a_refused_event_of_its_key_is_withheld(sending: Sending) -> None:
    assert sending.publisher.keeps_runs
    events = [event(401, key="a"), event(402, "no topic", key="a"), event(403, key="a"), event(404, key="b")]
    outcomes = await sending.send(events)
    assert [type(one) for one in outcomes] == [Acknowledged, Permanent, Withheld, Acknowledged]


async def test_what_is_given_up_before_it_begins_is_not_published(sending: Sending, embedded: EmbeddedBroker) -> None:
    events = [event(501)]
    sending.leases.may_begin.clear()
    await sending.publisher.publish_held(events, sending.take, sending.leases)
    abandoning = asyncio.create_task(sending.publisher.abandon("the gate closed"))
    await asyncio.sleep(0)
    sending.leases.may_begin.set()
    await abandoning
    assert sending.outcomes == {events[0].event_id: Unreachable("the gate closed")}
    assert events[0].event_id not in {row.event_id for row in await asyncio.to_thread(proofs_in, embedded.url)}


async def test_what_waits_for_a_producer_shares_one_transaction_with_a_proof_for_each_claim(
    sending: Sending, embedded: EmbeddedBroker
) -> None:
    claims = [Leases(FENCE), Leases(Fence(FENCE + timedelta(seconds=1)))]
    sending.leases.may_begin.clear()
    blockers = [event(number) for number in range(600, 600 + PRODUCERS)]
    for one in blockers:  # each takes a producer, and waits for its lease
        await sending.publisher.publish_held([one], sending.take, sending.leases)
        await eventually(lambda: sending.publisher._waiting is None, what="a producer for it")
    events = [event(number) for number in range(610, 650)]
    for start, holding in zip((0, 20), claims, strict=True):
        await sending.publisher.publish_held(events[start : start + 20], sending.take, holding)
    sending.leases.may_begin.set()
    await eventually(lambda: len(sending.outcomes) == len(events) + len(blockers), what="every outcome")
    assert all(isinstance(outcome, Acknowledged) for outcome in sending.outcomes.values())
    assert [len(each.begun) for each in claims] == [1, 1]
    rows = {
        row for row in await asyncio.to_thread(proofs_in, embedded.url) if row.event_id in {e.event_id for e in events}
    }
    assert rows == {LeasedRow("relay-a", claims[n // 20].fence, one.event_id) for n, one in enumerate(events)}


@pytest.mark.parametrize("ending", ["take_back", "abandon"])
async def test_what_waits_for_a_producer_is_given_back(sending: Sending, ending: str) -> None:
    sending.leases.may_begin.clear()
    for number in range(700, 700 + PRODUCERS):
        await sending.publisher.publish_held([event(number)], sending.take, sending.leases)
        await eventually(lambda: sending.publisher._waiting is None, what="a producer for it")
    last = [event(710), event(711)]
    await sending.publisher.publish_held(last, sending.take, sending.leases)
    if ending == "take_back":
        sending.publisher.take_back("the relay stops")
        expected: Outcome = Withheld("the relay stops")
        sending.leases.may_begin.set()
    else:
        abandoning = asyncio.create_task(sending.publisher.abandon("the gate closed"))
        await asyncio.sleep(0)
        expected = Unreachable("the gate closed")
        sending.leases.may_begin.set()
        await abandoning
    assert [sending.outcomes[one.event_id] for one in last] == [expected] * 2
    await eventually(lambda: sending.publisher._free.qsize() == PRODUCERS, what="every producer to be free again")


@pytest.mark.parametrize("sending", [True], indirect=True)
async def test_in_order_nothing_goes_before_an_event_of_its_key_that_cannot_begin(
    sending: Sending, embedded: EmbeddedBroker
) -> None:
    events = [event(number, key=key) for number, key in enumerate("klkl", 200)]
    sending.leases.short = {events[0].event_id}
    outcomes = await sending.send(events)
    assert [type(outcome) for outcome in outcomes] == [Withheld, Acknowledged, Withheld, Acknowledged]
    proven = {row.event_id for row in await asyncio.to_thread(proofs_in, embedded.url)}
    assert not proven & {events[0].event_id, events[2].event_id}
    assert events[2].event_id in sending.leases.ended


def test_proofs_say_exactly_what_they_were_made_of() -> None:
    ids = [EventId(str(uuid.uuid4())) for _ in range(10_001)]
    events = [event(1)._replace(event_id=one) for one in ids]
    made = list(records("relay-ü", [Begun(FENCE, 0.0, events)]))
    assert len(made) == 2
    assert {timestamp for _, _, timestamp in made} == {int(FENCE.timestamp() * 1000)}
    read = [row for key, value, _ in made for row in rows_of(key.encode(), value)]
    assert read == [(LeasedRow("relay-ü", FENCE, one), "") for one in ids]


def test_a_proof_of_a_copy_speaks_for_its_destination_while_another_one_lacks_the_event() -> None:
    copies = [RoutedEvent(*event(number)) for number in range(3)]
    for copy, in_part in zip(copies, (True, False, True), strict=True):
        copy.copy_for, copy.in_part = "bus", in_part
    made = records("relay-a", [Begun(FENCE, 0.0, copies)])
    read = dict(known for key, value, _ in made for known in rows_of(key.encode(), value))
    rows = [LeasedRow("relay-a", FENCE, copy.event_id) for copy in copies]
    assert read == {rows[0]: "bus", rows[1]: "", rows[2]: "bus"}


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"x" * 40), (b"k", None), (b"k", b"short"), (b"k", b"\3" + b"x" * 40), (b"k", b"\2" + b"x" * 8)],
)
def test_what_is_no_proof_proves_nothing(key: bytes | None, value: bytes | None) -> None:
    assert list(rows_of(key, value)) == []


def test_the_topic_of_proofs_has_a_name_that_kafka_takes() -> None:
    assert topic_of("my db.öffentlich.events") == "my_db._ffentlich.events.proofs"
    assert len(topic_of("x" * 300)) < 249


def twin_of(*, goes_on: bool) -> Fencings:
    async def decide() -> bool:
        return goes_on

    return Fencings("relay-a", decide)


@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_relay_with_a_twin_goes_on_where_that_one_has_stopped(goes_on: bool) -> None:
    fencings = twin_of(goes_on=goes_on)
    fencings.start()
    for _ in range(30):
        fencings.count(steady_seconds(), in_force=True)
    assert fencings.twin
    await eventually(lambda: fencings.decided, what="one of the two to go on")
    assert bool(fencings.twin) != goes_on
    fencings.stop()


def test_a_twin_is_known_by_many_ends_in_a_minute_with_leases_in_force() -> None:
    fencings = twin_of(goes_on=False)
    for _ in range(40):
        fencings.count(steady_seconds(), in_force=False)
    assert not fencings.twin
    for _ in range(29):
        fencings.count(steady_seconds(), in_force=True)
    since = steady_seconds() - 1
    fencings.count(since, in_force=True)  # of an epoch that the last one ended, too
    assert not fencings.twin
    fencings.count(steady_seconds(), in_force=True)
    assert "RELAY_ID relay-a" in fencings.twin
