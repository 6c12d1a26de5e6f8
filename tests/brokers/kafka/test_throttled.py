"""A broker that throttles the client: what expires meanwhile waits, and is no failed attempt."""

from __future__ import annotations

import asyncio
import os

import pytest
from confluent_kafka.admin import AdminClient

from relay.brokers.kafka.publisher import KafkaPublisher
from relay.core.outcome import Acknowledged, Away, Withheld
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.kafka import PACED, create_topic
from tests.support.options import kafka_options
from tests.support.servers.kafka import KafkaServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.xdist_group("pacing kafka")


@pytest.mark.parametrize("in_order", [False, True])
async def test_what_expires_while_a_broker_throttles_waits_and_is_no_failure(
    pacing_kafka: KafkaServer, in_order: bool
) -> None:
    topic = await asyncio.to_thread(
        create_topic, AdminClient({"bootstrap.servers": pacing_kafka.url}), f"throttled.{in_order}"
    )
    publisher = KafkaPublisher(kafka_options(pacing_kafka.url, write_timeout=3.0, in_order=in_order))
    await publisher.open()
    # More than one request: the first goes through, and its answer says how long the next one waits.
    events, sink = [make_event(topic, os.urandom(PACED), key=str(number)) for number in range(100)], Collector()
    await publisher.publish(events, sink)
    await eventually(lambda: "throttles this client" in publisher.blocked, what="the broker to throttle")
    outcomes = await sink.outcomes(events)
    assert {type(outcome) for outcome in outcomes} <= {Acknowledged, Away, Withheld}
    assert any(isinstance(outcome, Acknowledged) for outcome in outcomes)
    assert any(isinstance(outcome, Away) and "throttles" in outcome.reason for outcome in outcomes)
    assert not publisher.blocked, "nothing waits"
    await publisher.close()
