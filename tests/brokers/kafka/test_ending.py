"""The end of a Kafka session, and errors in the code that takes its reports. Needs no broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message

from relay.brokers.kafka.offer import Failure
from relay.brokers.kafka.publisher import KafkaPublisher, Use
from relay.core.errors import BrokerUnreachable
from relay.core.outcome import Acknowledged, Resolution, TimedOut, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import kafka_options
from tests.support.waiting import eventually

MESSAGE = cast("Message", None)
"""Of a report; nothing is read from it where no receipts are wanted."""


@pytest.fixture
async def publisher() -> AsyncIterator[KafkaPublisher]:
    """Its broker is away: what is offered stays in the client."""
    unconnected = KafkaPublisher(kafka_options("127.0.0.1:1"))
    await unconnected.open()
    yield unconnected
    await unconnected.close()


async def test_a_refused_batch_that_is_reported_during_abandon_opens_no_session(publisher: KafkaPublisher) -> None:
    event, sink = make_event("t"), Collector()
    await publisher.publish([event], sink)
    session = publisher._sessions[Use.MAIN]
    [offer] = session._offers
    abandoning = asyncio.create_task(publisher.abandon("the broker is down"))
    await asyncio.sleep(0)  # it has run to its first await; now the timer is due
    offer.note(0, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), MESSAGE)
    session.serve()
    await abandoning
    assert not publisher._sessions
    assert await sink.outcomes([event]) == [Unreachable("the broker is down")]


async def test_abandon_waits_for_a_session_that_was_replaced_before(publisher: KafkaPublisher) -> None:
    event, sink = make_event("t"), Collector()
    await publisher.publish([event], sink)
    session = publisher._sessions[Use.MAIN]
    publisher._replace(session, Failure("INVALID_PRODUCER_EPOCH", "fenced", True))
    await publisher.abandon("the broker is down")
    assert session._producer is None
    assert await sink.outcomes([event]) == [Unreachable("INVALID_PRODUCER_EPOCH: fenced")]


async def test_the_client_holds_nothing_after_abandon(publisher: KafkaPublisher) -> None:
    events, sink = [make_event("t") for _ in range(10)], Collector()
    await publisher.publish(events, sink)
    session = publisher._sessions[Use.MAIN]
    client = session._producer  # kept, so that it is not destroyed: that would drop what it holds
    assert client is not None
    assert len(client) >= 10  # errors of the connection count, too
    await publisher.abandon("the broker is down")
    assert len(client) < 10
    assert set(await sink.outcomes(events)) == {Unreachable("the broker is down")}


async def test_a_failed_delivery_is_not_acknowledged() -> None:
    publisher = KafkaPublisher(kafka_options("127.0.0.1:1", write_timeout=0.2))
    await publisher.open()
    event, sink = make_event("t"), Collector()
    await publisher.publish([event], sink)
    [outcome] = await sink.outcomes([event])
    assert isinstance(outcome, TimedOut)
    await publisher.close()


async def test_a_broker_that_is_away_does_not_answer_a_probe(publisher: KafkaPublisher) -> None:
    with pytest.raises(BrokerUnreachable):
        await publisher.probe(0.3)


async def test_an_error_of_a_sink_does_not_end_the_polling(
    publisher: KafkaPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Sequence[Resolution]) -> None:
        raise RuntimeError("a fault of the relay")

    first, second, sink = make_event("t"), make_event("t"), Collector()
    await publisher.publish([first], broken)
    await publisher.publish([second], sink)
    session = publisher._sessions[Use.MAIN]
    refused, last = session._offers
    refused.note(0, KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION), MESSAGE)
    await eventually(lambda: "a fault of the relay" in caplog.text)
    last.note(0, KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION), MESSAGE)
    assert len(await sink.outcomes([second])) == 1


async def test_an_error_of_a_sink_keeps_back_no_outcome_of_another_offer(
    publisher: KafkaPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Sequence[Resolution]) -> None:
        raise RuntimeError("a fault of the relay")

    first, second, sink = make_event("t"), make_event("t"), Collector()
    await publisher.publish([first], broken)
    await publisher.publish([second], sink)
    session = publisher._sessions[Use.MAIN]
    for offer in session._offers:
        offer.note(0, None, MESSAGE)
    await eventually(lambda: "a fault of the relay" in caplog.text)
    assert await sink.outcomes([second]) == [Acknowledged()]


async def test_a_report_that_comes_late_or_twice_resolves_nothing_again(publisher: KafkaPublisher) -> None:
    events, sink = [make_event("t") for _ in range(3)], Collector()
    await publisher.publish(events, sink)
    session = publisher._sessions[Use.MAIN]
    [offer] = session._offers
    offer.note(1, None, MESSAGE)
    session.serve()
    assert sink.resolutions == [(events[1], Acknowledged())]
    offer.note(1, KafkaError(KafkaError._MSG_TIMED_OUT), MESSAGE)
    await publisher.abandon("the broker is down")
    offer.note(0, None, MESSAGE)
    lost = Unreachable("the broker is down")
    assert await sink.outcomes(events) == [lost, Acknowledged(), lost]


async def test_an_offer_holds_no_event_that_is_resolved(publisher: KafkaPublisher) -> None:
    """A payload is not kept until its neighbours are answered."""
    events = [make_event("t") for _ in range(2)]
    await publisher.publish(events, Collector())
    session = publisher._sessions[Use.MAIN]
    [offer] = session._offers
    offer.note(0, None, MESSAGE)
    session.serve()
    assert offer.in_client == [None, events[1]]
    assert list(session._offers) == [offer]
    offer.note(1, None, MESSAGE)
    session.serve()
    assert not session._offers
