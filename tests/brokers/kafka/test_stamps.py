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
from relay.brokers.kafka.stamps import Stamp, event_time
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
