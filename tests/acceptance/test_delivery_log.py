"""The daemon with a delivery log: attempts arrive there, its state shows, and its API answers."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.acceptance.conftest import StartDaemon
from tests.fixtures.outbox import Outbox
from tests.fixtures.postgres import Database
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, payload, headers)
SELECT gen_random_uuid(), 'orders', '\\x7b7d', '{"tenant_id": "acme"}' FROM generate_series(1, 30)
"""


def test_every_attempt_is_logged_and_can_be_looked_up(outbox: Outbox, database: Database, daemon: StartDaemon) -> None:
    relay = daemon(
        PUBLISHER_TYPE="null", LOG_STORE_URL=database.url, LOG_STORE_FLUSH_INTERVAL="50ms", API_TOKEN="a-long-token"
    ).wait_ready()
    outbox.database.run(INSERT)
    wait_until(lambda: relay.metric("openoutbox_log_written_total") == 30, 30, "30 attempts in the log")
    assert json.loads(relay.get("/readyz")[1])["log"] == "ok"
    assert relay.metric("openoutbox_log_dropped_total") == 0
    request = urllib.request.Request(
        f"http://127.0.0.1:{relay.port}/api/v1/log/attempts?tenant_id=acme&limit=7",
        headers={"Authorization": "Bearer a-long-token"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        page = json.load(answer)
    assert len(page["items"]) == 7
    assert page["next"]
    assert {item["destination_type"] for item in page["items"]} == {"null"}
    assert relay.stop() == 0


def test_a_log_that_is_away_degrades_and_delays_nothing(outbox: Outbox, daemon: StartDaemon) -> None:
    relay = daemon(PUBLISHER_TYPE="null", LOG_STORE_URL="postgres://nobody@127.0.0.1:1/none").wait_ready()
    outbox.database.run(INSERT)
    wait_until(lambda: relay.metric("openoutbox_events_total", status="success") == 30, 30, "30 events delivered")
    wait_until(lambda: "degraded" in json.loads(relay.get("/readyz")[1])["log"], 30, "the log is degraded")
    assert relay.get("/readyz")[0] == 200
    assert relay.stop() == 0
    assert not outbox.database.run("SELECT 1 FROM openoutbox_events WHERE status <> 'DELIVERED'")
