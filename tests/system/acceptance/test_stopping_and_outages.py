"""Stopping, crashing and outages, seen from outside."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.nats import NatsServer
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import patience, wait_until

pytestmark = pytest.mark.timeout(180)


def test_sigterm_in_the_middle_of_a_drain_leaves_nothing_delivering_and_sends_nothing_twice(
    outbox: Outbox, daemon: StartDaemon, kafka: str, topic: MakeTopic
) -> None:
    name, count = topic(), 30_000
    outbox.fill(name, count)
    first = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka, RELAY_ID="first")
    wait_until(lambda: first.running and outbox.counts().get("DELIVERED", 0) > 1000, what="the drain to be under way")
    started = time.monotonic()
    assert first.stop() == 0
    assert time.monotonic() - started < patience(10)
    counts = outbox.counts()
    assert "DELIVERING" not in counts
    assert counts.get("PENDING", 0) > 0, "the test was too slow to stop it in the middle"
    assert outbox.database.run("SELECT max(attempts) FROM openoutbox_events") == [(0,)]
    second = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka, RELAY_ID="second")
    outbox.wait_finished(90)
    assert second.stop() == 0
    assert _end_offset(kafka, name) == count


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_sigterm_begins_no_webhook_and_waits_for_those_under_way(
    outbox: Outbox, daemon: StartDaemon, own_webhooks: WebhookServer, tmp_path: Path, ordering: str
) -> None:
    """Each takes two seconds at one of two endpoints, where hundreds wait; the other has had its own by then."""
    add_extension(outbox.url, TableName(), "key-order")
    names = ["slow"] * 4 + ["prompt"]
    outbox.insert([Row(name, partition_key=f"{name}-{number % 50}") for number in range(100) for name in names])
    table = tmp_path / "endpoints.toml"
    url = own_webhooks.url
    table.write_text("\n".join(f'[[endpoints]]\nevents = "{name}"\nurl = "{url}/{name}"\n' for name in set(names)))
    relay = daemon(
        PUBLISHER_TYPE="http",
        HTTP_ENDPOINTS_FILE=str(table),
        HTTP_ALLOW_PRIVATE="true",
        ORDERING=ordering,
        SHUTDOWN_TIMEOUT="60s",
        BATCH_SIZE="200",
        HTTP_CONNECTIONS_PER_HOST="8",
    )
    wait_until(lambda: outbox.counts().get("DELIVERED", 0) >= 108, what="the prompt one's, and answers of the other")
    before = outbox.counts()["DELIVERED"]
    assert relay.stop() == 0
    after = outbox.counts()
    assert after["DELIVERED"] - before <= 2 * 8
    assert after == {"DELIVERED": after["DELIVERED"], "PENDING": 500 - after["DELIVERED"]}
    assert len(own_webhooks.received("slow")) + 100 == after["DELIVERED"], "none was cut"
    assert len(own_webhooks.received("prompt")) == 100, "none was sent twice"
    assert outbox.rows("max(attempts)") == [(0,)]


def _end_offset(bootstrap: str, topic: str) -> int:
    """The offset behind the last message of a topic with one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "offsets"})
    try:
        _low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=patience())
        return int(high)
    finally:
        consumer.close()


def test_a_second_sigterm_ends_at_once(outbox: Outbox, daemon: StartDaemon, own_nats: NatsServer) -> None:
    """The broker hangs, so that the first SIGTERM has something to wait for."""
    outbox.fill("no.stream.here", 10)
    relay = daemon(
        PUBLISHER_TYPE="nats", PUBLISHER_URL=own_nats.url, SHUTDOWN_TIMEOUT="60s", NATS_PUBLISH_TIMEOUT="50s"
    ).wait_ready()
    os.kill(own_nats.pid, signal.SIGSTOP)
    try:
        outbox.fill("no.stream.here", 10)
        wait_until(lambda: outbox.counts().get("DELIVERING", 0) > 0, what="events to be in flight")
        relay.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in relay.log(), what="the first signal to be taken")
        started = time.monotonic()
        relay.process.send_signal(signal.SIGTERM)
        assert relay.process.wait(patience()) != 0
        assert time.monotonic() - started < patience(20)  # far less than SHUTDOWN_TIMEOUT
    finally:
        os.kill(own_nats.pid, signal.SIGCONT)


def test_a_crash_gives_its_events_back_and_counts_an_attempt(
    outbox: Outbox, daemon: StartDaemon, own_nats: NatsServer
) -> None:
    """The broker hangs, so the events are in flight when the relay is killed; the next relay reaps them."""
    timing = {"LEASE_TIMEOUT": "4s", "NATS_PUBLISH_TIMEOUT": "60s", "RETRY_BASE_DELAY": "1h", "RETRY_MAX_DELAY": "2h"}
    relay = daemon(PUBLISHER_TYPE="nats", PUBLISHER_URL=own_nats.url, RELAY_ID="killed", **timing).wait_ready()
    os.kill(own_nats.pid, signal.SIGSTOP)
    try:
        outbox.fill("some.subject", 5)
        wait_until(lambda: outbox.counts().get("DELIVERING", 0) == 5, what="events to be in flight")
        relay.kill()
        assert outbox.rows("DISTINCT locked_by") == [("killed",)]
        daemon(PUBLISHER_TYPE="null", RELAY_ID="survivor", **timing).wait_ready()
        wait_until(lambda: outbox.counts() == {"PENDING": 5}, what="the leases to be reaped")
    finally:
        os.kill(own_nats.pid, signal.SIGCONT)
    rows = outbox.rows("attempts, last_error, available_at > now() + interval '50 minutes', locked_by")
    assert {(row[0], row[2], row[3]) for row in rows} == {(1, True, None)}
    assert all("lease" in str(row[1]).lower() for row in rows)
    outbox.check_invariants()


@pytest.fixture
def stopped_nats(own_nats: NatsServer) -> NatsServer:
    """A server that is not there yet."""
    own_nats.stop()
    return own_nats


def test_an_unreachable_broker_costs_no_attempt_and_is_found_again(
    outbox: Outbox, daemon: StartDaemon, stopped_nats: NatsServer
) -> None:
    outbox.fill("some.subject", 20)
    relay = daemon(PUBLISHER_TYPE="nats", PUBLISHER_URL=stopped_nats.url)
    wait_until(lambda: relay.running and relay.metric("openoutbox_relay_state") == 2, what="the relay to be paused")
    status, body = relay.get("/readyz")
    assert status == 503
    assert "broker" in body
    assert outbox.counts() == {"PENDING": 20}
    stopped_nats.start()
    wait_until(lambda: relay.metric("openoutbox_relay_state") == 1, what="the relay to be active")
    # There is no stream: reached, and refused for now, which is an attempt.
    wait_until(lambda: outbox.database.run("SELECT min(attempts) >= 1 FROM openoutbox_events") == [(True,)])
    stopped_nats.stop()
    wait_until(lambda: relay.metric("openoutbox_relay_state") == 2, what="the relay to be paused again")
    wait_until(lambda: "DELIVERING" not in outbox.counts(), what="everything to be released")
    attempts = outbox.rows("sum(attempts)")
    stopped_nats.start()
    wait_until(lambda: relay.metric("openoutbox_relay_state") == 1, what="the relay to be active again")
    assert outbox.rows(f"sum(attempts) >= {attempts[0][0]}") == [(True,)]
    assert relay.stop() == 0
    outbox.check_invariants()
