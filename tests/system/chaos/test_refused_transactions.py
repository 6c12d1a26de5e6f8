"""KAFKA_TRANSACTIONS: a broker refuses a transaction for one message and does not say for which."""

from __future__ import annotations

import os

import pytest

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.outbox import Outbox, Row

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("chaos-kafka")]


def test_what_is_too_large_for_its_topic_fails_alone(
    outbox: Outbox, kafka: str, topic: MakeTopic, daemon: StartDaemon
) -> None:
    """The epoch ends with what is refused, and leases of before with it."""
    name = topic(config={"max.message.bytes": "20000"})
    rows = [Row(name, os.urandom(50_000 if number == 13 else 100)) for number in range(40)]
    large = outbox.insert(rows)[13]
    relay = daemon(
        PUBLISHER_TYPE="kafka",
        PUBLISHER_URL=kafka,
        KAFKA_TRANSACTIONS="true",
        RETRY_MAX_ATTEMPTS="1",
    ).wait_ready()
    outbox.wait_finished(60)
    assert relay.stop() == 0
    assert outbox.counts() == {"DELIVERED": 39, "DEAD": 1}
    assert outbox.row(large)["status"] == "DEAD"
    assert set(outbox.rows("status, attempts")) == {("DELIVERED", 0), ("DEAD", 1)}
