"""KAFKA_TRANSACTIONS: a producer that is fenced with messages in flight is destroyed, and the process goes on."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.fixtures.kafka import create_topic
from tests.system.chaos.conftest import MakeBroker

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("chaos-kafka")]

TOPICS = 6


def test_a_producer_that_is_fenced_with_messages_in_flight_is_destroyed_without_an_abort(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker("kafka")
    address = broker.env()["PUBLISHER_URL"]
    admin = AdminClient({"bootstrap.servers": address})
    topics = [create_topic(admin, f"fenced.{uuid.uuid4().hex}") for _ in range(TOPICS)]
    broker.proxy.delay = 0.05
    program = [sys.executable, "-m", "tests.system.chaos.fenced_in_flight", address, *topics]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr[-300:] * bool(ended.returncode)) == (0, "")
    assert int(ended.stdout) > 0
