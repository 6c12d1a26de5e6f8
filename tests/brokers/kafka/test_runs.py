"""Runs, in order per key: several events of a key are in flight, and none is stored before an earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message

from relay.brokers.kafka.options import run_config
from relay.brokers.kafka.publisher import KafkaPublisher, Use
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, Outcome, Permanent, TimedOut, Transient, Unreachable, Withheld
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.kafka import MakeTopic
from tests.support.options import kafka_options

Consume = Callable[..., list[Message]]
MESSAGE = cast("Message", None)
"""Of a report; nothing is read from it where no receipts are wanted."""


@pytest.fixture
async def unconnected() -> AsyncIterator[KafkaPublisher]:
    """Its broker is away: what is offered stays in the client."""
    publisher = KafkaPublisher(kafka_options("127.0.0.1:1", in_order=True, write_timeout=0.3, connection_timeout=0.3))
    await publisher.open()
    yield publisher
    await publisher.close()


async def outcomes(publisher: KafkaPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


def kinds(results: list[Outcome]) -> list[type[Outcome]]:
    return [type(one) for one in results]


@pytest.mark.kafka
async def test_what_is_behind_a_refused_event_is_not_stored_before_it(
    kafka: str, topic: MakeTopic, consume: Consume
) -> None:
    """With one message a batch, all five requests are in flight when the broker refuses the third."""
    name = topic(config={"max.message.bytes": "2000"})
    publisher = KafkaPublisher(kafka_options(kafka, in_order=True, batch_size=1, compression="none"))
    await publisher.open()
    assert publisher.keeps_runs
    run = [make_event(name, b"x" * 5000 if n == 3 else str(n).encode(), key="k") for n in range(1, 6)]
    results = await outcomes(publisher, run)
    assert kinds(results) == [Acknowledged, Acknowledged, Permanent, Withheld, Withheld]
    assert kinds(await outcomes(publisher, run[3:])) == [Acknowledged, Acknowledged]
    await publisher.close()
    assert [message.value() for message in consume(name, 4)] == [b"1", b"2", b"4", b"5"]


@pytest.mark.kafka
async def test_the_first_event_of_a_run_to_a_missing_topic_fails_alone(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    publisher = KafkaPublisher(kafka_options(kafka, in_order=True))
    await publisher.open()
    missing = [make_event("no.such.topic", key="k") for _ in range(3)]
    others = [make_event(name, key="other") for _ in range(3)]
    results = await outcomes(publisher, [*missing, *others])
    assert kinds(results[:3]) == [Transient, Withheld, Withheld]
    assert kinds(results[3:]) == [Acknowledged] * 3
    await publisher.close()


async def test_of_a_run_without_an_answer_the_first_event_has_timed_out(unconnected: KafkaPublisher) -> None:
    runs = [make_event("t", key=key) for key in "aabab"]
    assert kinds(await outcomes(unconnected, runs)) == [TimedOut, Withheld, TimedOut, Withheld, Withheld]
    assert Use.RUNS not in unconnected._sessions


async def test_what_is_behind_an_event_that_the_client_refuses_is_not_handed_over(unconnected: KafkaPublisher) -> None:
    run = [make_event("t", payload, key="k") for payload in (b"1", b"x" * 10_500_000, b"3")]
    sink = Collector()
    await unconnected.publish(run, sink)
    [offer] = unconnected._sessions[Use.RUNS]._offers
    assert [event is not None for event in offer.in_client] == [True, False, False]
    await unconnected.abandon("enough")
    assert kinds(await sink.outcomes(run)) == [Unreachable, Permanent, Withheld]


async def test_a_refused_batch_that_is_reported_during_abandon_opens_no_session(unconnected: KafkaPublisher) -> None:
    run, sink = [make_event("t", key="k") for _ in range(2)], Collector()
    await unconnected.publish(run, sink)
    session = unconnected._sessions[Use.RUNS]
    [offer] = session._offers
    session.end(Withheld("another one failed"))  # its reports are still read, while the broker is given up
    abandoning = asyncio.create_task(unconnected.abandon("the broker is down"))
    await asyncio.sleep(0)
    offer.note(0, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), MESSAGE)
    session.serve()
    await abandoning
    assert not unconnected._sessions
    assert kinds(await sink.outcomes(run)) == [Withheld, Withheld]


async def test_an_event_that_failed_before_and_one_without_a_key_end_no_run(unconnected: KafkaPublisher) -> None:
    events = [make_event("t", key="k")._replace(last_code="LEADER"), make_event("t"), make_event("t", key="")]
    sink = Collector()
    await unconnected.publish(events, sink)
    assert Use.RUNS not in unconnected._sessions
    await unconnected.abandon("enough")
    assert kinds(await sink.outcomes(events)) == [Unreachable] * 3


@pytest.mark.parametrize(
    ("in_order", "acks", "query", "keeps"),
    [
        (True, "all", "", True),
        (False, "all", "", False),
        (True, "one", "", False),
        (True, "all", "?partitioner=murmur2_random", True),
        (True, "all", "?partitioner=random", False),
        (True, "all", "?delivery.timeout.ms=5000", False),
        (True, "all", "?enable.gapless.guarantee=false", False),
    ],
)
def test_runs_are_kept_where_the_order_of_a_partition_is(in_order: bool, acks: str, query: str, keeps: bool) -> None:
    options = kafka_options(f"kafka://host:9092{query}", in_order=in_order, required_acks=acks)
    assert (run_config(options) is not None) is keeps
