"""A real Kafka that throttles the relay, by a quota: its events wait, and none of them fails an attempt."""

from __future__ import annotations

import os

import pytest
from confluent_kafka.admin import AdminClient

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.kafka import PACED, create_topic
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.servers.kafka import KafkaServer
from tests.support.waiting import wait_until
from tests.system.chaos.brokers import read_topic
from tests.system.chaos.looking import check_finished, seconds_until

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("pacing kafka")]

ATTEMPTS = 5


@pytest.mark.parametrize(
    ("ordering", "events"),
    [pytest.param("key", 100, id="key"), pytest.param("none", 200, id="none", marks=pytest.mark.soak)],
)
def test_a_quota_costs_no_attempt_and_the_destination_is_blocked(
    outbox: Outbox, pacing_kafka: KafkaServer, daemon: StartDaemon, measured: Measured, ordering: str, events: int
) -> None:
    if ordering == "key":
        add_extension(outbox.owner_url, TableName(), "key-order")
        with outbox.database.connect() as connection:
            give_rights(connection)
    topic = create_topic(AdminClient({"bootstrap.servers": pacing_kafka.url}), f"quota.{ordering}")
    relay = daemon(
        PUBLISHER_TYPE="kafka",
        PUBLISHER_URL=pacing_kafka.url,
        ORDERING=ordering,
        KAFKA_WRITE_TIMEOUT="3s",
        PUBLISHER_CONNECT_RETRY_INTERVAL="1s",
        HEALTH_CHECK_INTERVAL="500ms",
        RETRY_MAX_ATTEMPTS=str(ATTEMPTS),
        RETRY_BASE_DELAY="100ms",
    ).wait_ready()
    outbox.insert([Row(topic, os.urandom(PACED), f"key-{number}") for number in range(events)])
    wait_until(lambda: relay.metric("openoutbox_destination_state") == 3, 60, "it to be blocked")
    status, body = relay.get("/readyz")
    assert status == 200
    assert "throttles this client" in body
    seconds = seconds_until(lambda: not outbox.unfinished(), 240, "every event to have its end")
    check_finished(outbox)
    assert outbox.counts() == {"DELIVERED": events}
    assert outbox.rows("max(attempts)") == [(0,)]
    received = read_topic(pacing_kafka.url, topic)
    wait_until(lambda: relay.metric("openoutbox_destination_state") == 1, 90, "it to flow again")
    assert len(received) == events
    measured(
        fault=f"Kafka quota of 20 kB/s, {events} events of 20 kB, ORDERING={ordering}",
        delivered_after_s=seconds,
        attempts_used=0,
        duplicates=received.total() - events,
    )
