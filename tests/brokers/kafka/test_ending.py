"""The end of a Kafka session, and errors in the code that takes its reports. Needs no broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from relay.brokers.kafka.publisher import KafkaPublisher
from relay.brokers.kafka.session import Failure
from relay.core.errors import BrokerUnreachable
from relay.core.outcome import Resolution, TimedOut, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import kafka_options
from tests.support.waiting import eventually


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
    session = publisher._main
    assert session is not None
    [(serial, entry)] = session._pending.items()
    abandoning = asyncio.create_task(publisher.abandon("the broker is down"))
    await asyncio.sleep(0)  # it has run to its first await; now the timer is due
    del session._pending[serial]
    session._failed.append((entry, Failure("MSG_SIZE_TOO_LARGE", "batch", False)))
    session.serve()
    await abandoning
    assert (publisher._main, publisher._alone) == (None, None)
    assert await sink.outcomes([event]) == [Unreachable("the broker is down")]


async def test_abandon_waits_for_a_session_that_was_replaced_before(publisher: KafkaPublisher) -> None:
    event, sink = make_event("t"), Collector()
    await publisher.publish([event], sink)
    session = publisher._main
    assert session is not None
    publisher._replace(session, Failure("INVALID_PRODUCER_EPOCH", "fenced", True))
    await publisher.abandon("the broker is down")
    assert session._producer is None
    assert await sink.outcomes([event]) == [Unreachable("INVALID_PRODUCER_EPOCH: fenced")]


async def test_the_client_holds_nothing_after_abandon(publisher: KafkaPublisher) -> None:
    events, sink = [make_event("t") for _ in range(10)], Collector()
    await publisher.publish(events, sink)
    session = publisher._main
    assert session is not None
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
    session = publisher._main
    assert session is not None
    (serial, entry), (last_serial, last) = session._pending.items()
    del session._pending[serial]
    session._failed.append((entry, Failure("NOT_LEADER_FOR_PARTITION", "moved", False)))
    await eventually(lambda: "a fault of the relay" in caplog.text)
    del session._pending[last_serial]
    session._failed.append((last, Failure("NOT_LEADER_FOR_PARTITION", "moved", False)))
    assert len(await sink.outcomes([second])) == 1
