"""KAFKA_TIMESTAMP: what time messages have, and what becomes of events whose own time the broker refuses."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from relay.brokers.kafka.publisher import KafkaPublisher
from relay.brokers.kafka.stamps import RefusedTimes, Stamp, event_time
from relay.brokers.kafka.transactions import KafkaTransactions
from relay.core.event import Fence, OutboxEvent
from relay.core.outcome import Acknowledged, Outcome
from tests.brokers.harness.base import Collector, make_event
from tests.brokers.kafka.sending import Sending
from tests.support.fixtures.kafka import MakeTopic
from tests.support.options import kafka_options

Consume = Callable[..., list[Message]]
NOW = 1_900_000_000.0
"""Of the relay's clock, in 2030: far from the broker's."""
EVENT = 1_700_000_000.123456
STRICT = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}


def created(topic: str, payload: bytes, created_at: float, key: str | None = None) -> OutboxEvent:
    return make_event(topic, payload, key=key)._replace(created_at=created_at)


async def published(publisher: KafkaPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.open()
    await publisher.publish(events, sink)
    outcomes = await sink.outcomes(events)
    await publisher.close()
    return outcomes


def times(messages: Sequence[Message]) -> list[tuple[bytes | None, int]]:
    stamps = [message.timestamp() for message in messages]
    assert {kind for kind, _ in stamps} == {TIMESTAMP_CREATE_TIME}
    return [(message.value(), at) for message, (_, at) in zip(messages, stamps, strict=True)]


@pytest.mark.parametrize(
    ("created_at", "milliseconds"),
    [
        (EVENT, 1_700_000_000_123),
        (1_700_000_000.999999, 1_700_000_000_999),
        (1_700_000_000.001, 1_700_000_000_001),
        (0.001, 1),
        (0.0, None),  # which librdkafka takes for the host's now
        (-0.5, None),
        (math.inf, None),
        (-math.inf, None),
        (4e11, None),
    ],
)
def test_a_message_has_the_millisecond_of_its_event(created_at: float, milliseconds: int | None) -> None:
    assert event_time(created("t", b"", created_at)) == milliseconds


def test_other_stamps_have_no_time_of_the_event() -> None:
    assert {event_time(created("t", b"", EVENT), one) for one in (Stamp.NOW, Stamp.NOW_INSTEAD)} == {None}


def test_a_refused_time_speaks_for_those_that_are_as_far_on_its_side_of_its_topic_for_a_minute() -> None:
    seconds = 0.0
    times = RefusedTimes(lambda: seconds)
    times.refused(created("t", b"", EVENT), EVENT + 1000)

    def stays(topic: str, ahead: float) -> bool:
        return times.own_time(created(topic, b"", EVENT + ahead), EVENT) is not None

    assert [stays("t", ahead) for ahead in (-5000, -1000, -900, -899, 0, 5000)] == [False] * 3 + [True] * 3
    assert stays("other", -5000)
    times.refused(created("t", b"", EVENT + 50), EVENT)
    times.refused(created("t", b"", EVENT + 45), EVENT)  # was sent with now, and says nothing of its own time
    assert [stays("t", ahead) for ahead in (-1000, 44, 45)] == [False, True, False]
    seconds = 60.0
    assert stays("t", -5000)
    assert stays("t", 5000)


@pytest.mark.kafka
async def test_what_a_topic_has_refused_is_not_offered_to_it_again_at_once(
    kafka: str, topic: MakeTopic, consume: Consume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim with such an event had a batch refused, and all of that offered again one by one."""
    name, now = topic(config=STRICT), time.time()
    publisher = KafkaPublisher(kafka_options(kafka, timestamp="created_at"))
    await publisher.open()
    refused: list[OutboxEvent] = []
    second_try = publisher._second_try

    def note(session: Any, event: OutboxEvent, failure: Any) -> Any:
        refused.append(event)
        return second_try(session, event, failure)

    monkeypatch.setattr(publisher, "_second_try", note)
    for claim in range(2):
        refused.clear()
        sink = Collector()
        events = [created(name, b"%d" % n, EVENT + n if n % 2 else now) for n in range(20)]
        await publisher.publish(events, sink)
        assert await sink.outcomes(events) == [Acknowledged(restamped=n % 2 == 1) for n in range(20)]
        assert bool(refused) == (claim == 0)
    await publisher.close()
    assert len(consume(name, 40)) == 40


@pytest.mark.kafka
@pytest.mark.parametrize("receipts", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
async def test_the_consumer_sees_the_events_time(
    kafka: str, topic: MakeTopic, consume: Consume, *, receipts: bool, in_order: bool
) -> None:
    """One that no message can have is the time of the offer, and said with the acknowledgement."""
    name = topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    options = {"timestamp": "created_at", "receipts": receipts, "in_order": in_order, "now": lambda: NOW}
    events = [
        created(name, str(n).encode(), at, "k") for n, at in enumerate((EVENT, math.inf, -5.0, EVENT + 1, -math.inf))
    ]
    outcomes = await published(KafkaPublisher(kafka_options(kafka, **options)), events)
    seen, now = int(EVENT * 1000), int(NOW * 1000)
    expected = [(b"0", seen), (b"1", now), (b"2", now), (b"3", seen + 1000), (b"4", now)]
    assert times(consume(name, 5)) == expected
    restamped = [one.restamped for one in outcomes if isinstance(one, Acknowledged)]
    assert restamped == [at == now for _, at in expected]
    assert [one.receipt is not None for one in outcomes if isinstance(one, Acknowledged)] == [receipts] * 5


@pytest.mark.kafka
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("old", [{11}, {3, 4, 11}, set(range(20))])
async def test_a_refused_time_is_replaced_and_its_neighbours_keep_theirs(
    kafka: str, topic: MakeTopic, consume: Consume, *, in_order: bool, old: set[int]
) -> None:
    name, now = topic(config=STRICT), time.time()
    events = [created(name, b"%d" % n, EVENT if n in old else now - n, "k") for n in range(20)]
    options = kafka_options(kafka, timestamp="created_at", in_order=in_order)
    outcomes = await published(KafkaPublisher(options), events)
    if in_order:  # what was behind a refused one in the client is given back
        done = [event for event, one in zip(events, outcomes, strict=True) if isinstance(one, Acknowledged)]
        assert done == events[: len(done)]
        assert len(done) > max(old)
    else:
        done = events
        assert outcomes == [Acknowledged(restamped=n in old) for n in range(20)]
    seen = times(consume(name, len(done)))
    own = {b"%d" % n: int((now - n) * 1000) for n in range(20) if n not in old}
    assert [value for value, at in seen if value in own and abs(at - own[value]) > 1] == []
    assert all(at >= int(now * 1000) for value, at in seen if value not in own)
    if in_order:
        assert [value for value, _ in seen] == [event.payload for event in done]


@pytest.mark.kafka
async def test_a_clock_that_the_broker_refuses_as_well_uses_an_attempt(kafka: str, topic: MakeTopic) -> None:
    name = topic(config=STRICT)
    options = kafka_options(kafka, timestamp="created_at", now=lambda: NOW)
    [outcome] = await published(KafkaPublisher(options), [created(name, b"", EVENT)])
    assert getattr(outcome, "code", "") == "INVALID_TIMESTAMP"


@asynccontextmanager
async def transactions(kafka: str, prefix: str, **options: Any) -> AsyncIterator[Sending]:
    changes = {"transactions": True, "relay_id": f"relay-{uuid.uuid4().hex[:6]}", "transactions_prefix": prefix}
    publisher = KafkaTransactions(kafka_options(kafka, **changes, **options))
    await publisher.open()
    sending = Sending(publisher)
    sending.leases.fence = Fence(datetime.now(UTC))  # which stamps the proofs
    yield sending
    await publisher.close()


@pytest.mark.kafka
async def test_what_the_broker_refuses_in_a_transaction_costs_its_neighbours_nothing(
    kafka: str, topic: MakeTopic
) -> None:
    """A producer whose batch was refused has a gap in its sequence: its next transaction was refused for that."""
    name = topic(config={"cleanup.policy": "compact"})
    async with transactions(kafka, name) as sending:
        outcomes = await sending.send([created(name, b"", EVENT, None if n == 3 else "k") for n in range(8)])
    assert [getattr(one, "code", "") for one in outcomes] == ["INVALID_RECORD" if n == 3 else "" for n in range(8)]


@pytest.mark.kafka
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("old", [{5: EVENT}, {2: EVENT, 5: math.inf}, dict.fromkeys(range(8), EVENT)])
async def test_transactions_are_begun_again_with_another_time(
    kafka: str, topic: MakeTopic, consume: Consume, *, in_order: bool, old: dict[int, float]
) -> None:
    name, now = topic(config=STRICT), time.time()
    events = [created(name, b"%d" % n, old.get(n, now - n), "k") for n in range(8)]
    async with transactions(kafka, name, timestamp="created_at", in_order=in_order) as sending:
        outcomes = await sending.send(events)
    assert len(sending.leases.begun) <= (8 if len(old) == 8 else 3)
    assert outcomes == [Acknowledged(restamped=n in old) for n in range(8)]
    seen = times(consume(name, 8))
    if in_order:
        assert [value for value, _ in seen] == [event.payload for event in events]
    seen.sort()
    assert [abs(at - int((now - n) * 1000)) <= 1 for n, (_, at) in enumerate(seen)] == [n not in old for n in range(8)]


@pytest.mark.kafka
@pytest.mark.parametrize("ahead", [-86_400.0, 86_400.0])
async def test_many_refused_times_in_order_cost_few_transactions(
    kafka: str, topic: MakeTopic, consume: Consume, ahead: float
) -> None:
    """Each cost three, and one more epoch: 40 of them held up their neighbours for half a minute."""
    name, other, now = topic(config=STRICT), topic(), time.time()
    refused = [created(name, b"%d" % n, now + ahead + n / 1000, "k") for n in range(24)]
    good = [created(other, b"%d" % n, now, f"k{n}") for n in range(24)]
    events = [event for pair in zip(refused, good, strict=True) for event in pair]
    async with transactions(kafka, name, timestamp="created_at", in_order=True) as sending:
        outcomes = await sending.send(events)
    assert outcomes == [Acknowledged(restamped=event.event_type == name) for event in events]
    assert len(sending.leases.begun) <= 20
    assert [message.value() for message in consume(name, 24)] == [event.payload for event in refused]


@pytest.mark.kafka
async def test_whom_the_broker_names_is_known_although_no_lease_outlives_the_epoch(
    kafka: str, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch ends with what is refused, and leases of before with it: the claim was begun again without end."""
    name = topic(config={"cleanup.policy": "compact"})
    async with transactions(kafka, name) as sending:
        begin = sending.leases.begin

        async def begin_once(events: Sequence[OutboxEvent], *values: Any) -> Any:
            begun = await begin(events, *values)
            sending.leases.short.update(event.event_id for event in events)
            return begun

        monkeypatch.setattr(sending.leases, "begin", begin_once)
        outcomes = await sending.send([created(name, b"", EVENT, None if n in (3, 5) else "k") for n in range(8)])
    assert [n for n, one in enumerate(outcomes) if getattr(one, "code", "") == "INVALID_RECORD"] == [3, 5]
