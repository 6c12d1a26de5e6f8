"""The endpoints and the metrics (docs/reference/conformance.md#metrics), through an event's life and an outage."""

from __future__ import annotations

import json
import re
import time

from relay.localservers.postgres import PostgresServer
from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import create_database
from tests.support.servers.nats import NatsServer
from tests.support.waiting import patience, wait_until

CONTRACT = {
    "openoutbox_events_total": ("counter", {"status", "relay_id"}),
    "openoutbox_events_batch_size": ("histogram", {"relay_id"}),
    "openoutbox_events_e2e_latency_seconds": ("histogram", {"relay_id"}),
    "openoutbox_storage_latency_seconds": ("histogram", {"op", "status", "relay_id"}),
    "openoutbox_publisher_latency_seconds": ("histogram", {"status", "relay_id"}),
    "openoutbox_backlog_pending_count": ("gauge", {"status", "relay_id"}),
    "openoutbox_backlog_oldest_age_seconds": ("gauge", {"relay_id"}),
    "openoutbox_backlog_oldest_due_age_seconds": ("gauge", {"relay_id"}),
    "openoutbox_relay_state": ("gauge", {"relay_id"}),
    "openoutbox_leases_lost_total": ("counter", {"relay_id"}),
}


def test_names_types_and_labels_are_the_contracts(outbox: Outbox, daemon: StartDaemon) -> None:
    relay = daemon(PUBLISHER_TYPE="null", RELAY_ID="the relay").wait_ready()
    text = relay.get("/metrics")[1]
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    for name, (kind, labels) in CONTRACT.items():
        assert types.get(name) == kind
        suffix = "_count" if kind == "histogram" else ""
        series = re.findall(rf"^{name}{suffix}\{{(.*)\}} ", text, re.MULTILINE)
        assert series, name
        for sample in series:
            assert set(re.findall(r'(\w+)="', sample)) == labels, name
            assert 'relay_id="the relay"' in sample
    assert set(re.findall(r'openoutbox_events_total\{.*?status="(\w+)"', text)) == {"success", "failed"}
    assert set(re.findall(r'backlog_pending_count\{.*?status="(\w+)"', text)) == {"new", "retrying"}
    assert {"claim", "mark_delivered", "mark_failed"} <= set(re.findall(r'op="(\w+)"', text))


def test_each_metric_moves_when_it_should(outbox: Outbox, daemon: StartDaemon, own_nats: NatsServer) -> None:
    """Subjects without a stream fail; events delivered by the null publisher succeed."""
    outbox.database.run("""
        INSERT INTO openoutbox_events (event_id, event_type, payload, created_at, available_at, attempts)
        SELECT gen_random_uuid(), 't', '', now() - interval '1 hour', now() + interval '1 hour', n / 5
        FROM generate_series(1, 8) AS n
    """)
    outbox.fill("good", 250)
    relay = daemon(PUBLISHER_TYPE="null", BATCH_SIZE="100")
    wait_until(lambda: relay.running and outbox.counts().get("DELIVERED") == 250, what="the delivery")
    wait_until(lambda: relay.metric("openoutbox_events_total", status="success") == 250, what="the count")
    assert relay.metric("openoutbox_events_batch_size_sum") == 250
    assert relay.metric("openoutbox_events_batch_size_count") >= 3
    assert relay.metric("openoutbox_events_e2e_latency_seconds_count") == 250
    assert relay.metric("openoutbox_publisher_latency_seconds_count", status="success") == 250
    for op in ("claim", "mark_delivered"):
        assert relay.metric("openoutbox_storage_latency_seconds_count", op=op, status="success") >= 1
    wait_until(lambda: relay.metric("openoutbox_backlog_pending_count", status="new") == 4, what="the backlog")
    assert relay.metric("openoutbox_backlog_pending_count", status="retrying") == 4
    assert 3600 <= relay.metric("openoutbox_backlog_oldest_age_seconds") < 3900
    assert relay.metric("openoutbox_backlog_oldest_due_age_seconds") == 0
    stats = json.loads(relay.get("/stats")[1])
    assert (stats["pending_count"], stats["retrying_count"]) == (4, 4)
    assert 3600 <= stats["oldest_age_sec"] < 3900
    assert relay.stop() == 0
    failing = daemon(PUBLISHER_TYPE="nats", PUBLISHER_URL=own_nats.url, RETRY_MAX_ATTEMPTS="1")
    outbox.insert([Row("no.stream")])
    wait_until(lambda: failing.running and outbox.counts().get("DEAD") == 1, what="the refusal")
    wait_until(lambda: failing.metric("openoutbox_events_total", status="failed") == 1, what="the count")
    assert failing.metric("openoutbox_publisher_latency_seconds_count", status="failed") == 1
    assert failing.metric("openoutbox_storage_latency_seconds_count", op="mark_failed", status="success") == 1


def answer_at_once(relay: Daemon, path: str) -> tuple[int, str]:
    """No endpoint waits for a database that does not answer."""
    started = time.monotonic()
    answer = relay.get(path)
    assert time.monotonic() - started < patience(2)
    return answer


def not_ready(relay: Daemon) -> bool:
    status, body = answer_at_once(relay, "/readyz")
    if status == 200:
        return False
    said = json.loads(body)
    assert (status, said["ready"], said["broker"]) == (503, False, "ok")
    return "unreachable" in said["storage"]


def test_a_database_that_goes_and_comes_back(own_postgres: PostgresServer) -> None:
    outbox = Outbox.create(create_database(own_postgres.url))
    with Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "null", "HEALTH_CHECK_INTERVAL": "500ms"}) as relay:
        relay.wait_ready()
        own_postgres.stop()
        wait_until(lambda: relay.running and not_ready(relay), what="the loss to show")
        assert relay.metric("openoutbox_relay_state") == 3
        assert answer_at_once(relay, "/healthz")[0] == 200
        assert relay.get("/stats")[0] in (200, 503)
        assert relay.metric("openoutbox_storage_latency_seconds_count", status="failed") > 0
        own_postgres.start()
        relay.wait_ready()
        assert relay.metric("openoutbox_relay_state") == 1
        outbox.fill("good", 10)
        outbox.wait_finished(30)
        assert relay.stop() == 0
        assert all(isinstance(line, dict) for line in relay.log_lines())
