"""The daemon with a delivery log: attempts arrive there, and its state shows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from relay.deliverylog import AttemptRecord, ListAttempts, Page, open_delivery_log
from relay.outbox.admin.replay import ReplayOptions, replay
from relay.outbox.admin.selection import Selection
from relay.outbox.extensions import add_extension
from relay.postgres.sql import DEFAULT_LOG_SCHEMA, TableName
from tests.cli.running import call_cli
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, as_user
from tests.support.fixtures.postgres import Database
from tests.support.waiting import wait_until

INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, payload, headers)
SELECT gen_random_uuid(), 'orders', '\\x7b7d', '{"tenant_id": "acme"}' FROM generate_series(1, 30)
"""


async def attempts(database: Database, schema: str, query: ListAttempts) -> Page[AttemptRecord]:
    store = await open_delivery_log(database.url, schema=schema)
    page = await store.list_attempts(query)
    await store.close()
    return page


def test_every_attempt_is_logged_and_can_be_looked_up(outbox: Outbox, database: Database, daemon: StartDaemon) -> None:
    relay = daemon(
        PUBLISHER_TYPE="null",
        DELIVERY_LOG_URL=database.url,
        DELIVERY_LOG_FLUSH_INTERVAL="50ms",
    ).wait_ready()
    outbox.database.run(INSERT)
    wait_until(lambda: relay.metric("openoutbox_log_written_total") == 30, what="30 attempts in the log")
    assert json.loads(relay.get("/readyz")[1])["log"] == "ok"
    assert relay.metric("openoutbox_log_dropped_total") == 0
    page = asyncio.run(attempts(database, DEFAULT_LOG_SCHEMA, ListAttempts(tenant_ids=["acme"], limit=7)))
    assert len(page.items) == 7
    assert page.next
    assert {record.attempt.destination_type for record in page.items} == {"null"}
    assert relay.stop() == 0


def test_a_log_that_is_away_degrades_and_delays_nothing(outbox: Outbox, daemon: StartDaemon) -> None:
    relay = daemon(PUBLISHER_TYPE="null", DELIVERY_LOG_URL="postgres://nobody@127.0.0.1:1/none").wait_ready()
    outbox.database.run(INSERT)
    wait_until(lambda: relay.metric("openoutbox_events_total", status="success") == 30, what="30 events delivered")
    wait_until(lambda: "degraded" in json.loads(relay.get("/readyz")[1])["log"], what="the log is degraded")
    assert relay.get("/readyz")[0] == 200
    assert relay.stop() == 0
    assert not outbox.database.run("SELECT 1 FROM openoutbox_events WHERE status <> 'DELIVERED'")


def test_a_log_that_refuses_the_login_is_said_everywhere(outbox: Outbox, daemon: StartDaemon, tmp_path: Path) -> None:
    refused = as_user(outbox.url, "no_such_recorder")
    relay = daemon(PUBLISHER_TYPE="null", DELIVERY_LOG_URL=refused).wait_ready()
    outbox.database.run(INSERT)
    wait_until(lambda: relay.metric("openoutbox_events_total", status="success") == 30, what="30 events delivered")
    wait_until(lambda: relay.metric("openoutbox_log_degraded") == 1, what="the log is degraded")
    status, body = relay.get("/readyz")
    said = (
        "degraded: the delivery log's database refuses the login; check DELIVERY_LOG_URL: correct the user, or create"
    )
    assert (status, json.loads(body)["log"]) == (200, f"{said} it: CREATE ROLE ... LOGIN")
    [line] = [each for each in relay.log_lines() if each.get("action") == "delivery_log_degraded"]
    assert "DELIVERY_LOG_URL" in line["msg"]
    assert 'role "no_such_recorder" does not exist' in line["msg"]
    assert relay.stop() == 0
    done = call_cli(tmp_path, "check", STORAGE_URL=outbox.relay_url, PUBLISHER_TYPE="null", DELIVERY_LOG_URL=refused)
    assert "warning  database: " in done.stdout
    assert "DELIVERY_LOG_URL is right" in done.stdout
    assert done.returncode == 0


def test_what_an_operator_sent_again_is_manual(outbox: Outbox, database: Database, daemon: StartDaemon) -> None:
    add_extension(outbox.database.url, TableName(), "replay-audit")
    outbox.database.run("GRANT SELECT, INSERT ON openoutbox_replays TO openoutbox_relay")
    relay = daemon(
        PUBLISHER_TYPE="null",
        DELIVERY_LOG_URL=database.url,
        DELIVERY_LOG_SCHEMA="history",
        DELIVERY_LOG_FLUSH_INTERVAL="50ms",
    ).wait_ready()
    outbox.database.run(INSERT)
    wait_until(lambda: relay.metric("openoutbox_log_written_total") == 30, what="30 attempts in the log")
    replay(outbox.relay_url, TableName(), Selection(("delivered",)), ReplayOptions(limit=1))
    wait_until(lambda: relay.metric("openoutbox_log_written_total") == 31, what="the replayed one in the log")
    items = asyncio.run(attempts(database, "history", ListAttempts())).items
    assert [record.attempt.manual for record in items] == [True] + [False] * 30
    assert {record.attempt.attempt_number for record in items} == {1}
    assert database.run("SELECT count(*) FROM history.attempts WHERE manual") == [(1,)]
    assert relay.stop() == 0
