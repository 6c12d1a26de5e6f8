"""What is beside the way of events and does not work: in /readyz, the metric and the log, and deliveries go on."""

from __future__ import annotations

import json

import pytest

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.waiting import wait_until

pytestmark = pytest.mark.session

PARTS = {
    "pauses": ("pauses_unread", "GRANT SELECT ON"),
    "fleet": ("fleet_unwritten", "GRANT SELECT, INSERT, UPDATE, DELETE ON"),
    "series": ("series_unwritten", "GRANT SELECT, INSERT, UPDATE, DELETE ON"),
    "wake-up": ("no_wake_up", "relay-cli migrate --table openoutbox_events --with wake-up"),
}

END_LISTENING = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query LIKE '%LISTEN "openoutbox_%' AND datname = current_database() AND pid <> pg_backend_pid()
"""


def test_what_does_not_work_is_said_everywhere_and_ends_when_it_is_set_right(
    outbox: Outbox, daemon: StartDaemon
) -> None:
    for name in ("pause", "fleet", "series"):
        add_extension(outbox.owner_url, TableName(), name)
    relay = daemon(WAKE_UP="true", PUBLISHER_TYPE="null", RELAY_ID="r").wait_ready()

    def degraded() -> dict[str, str]:
        body = json.loads(relay.get("/readyz")[1])
        return {name: body[name] for name in PARTS if name in body}

    wait_until(lambda: degraded().keys() == PARTS.keys(), what="all four to be named")
    for name, (action, remedy) in PARTS.items():
        assert degraded()[name].startswith("degraded: ")
        assert remedy in degraded()[name]
        assert relay.metric("openoutbox_degraded", part=name) == 1
        assert [line["level"] for line in relay.log_lines() if line.get("action") == action][:1] == ["warning"]
    assert relay.metric("openoutbox_degraded", part="fan-out") == 0
    outbox.fill("t", 3)
    wait_until(lambda: outbox.counts() == {"DELIVERED": 3}, what="the deliveries")
    with outbox.database.connect() as connection:
        give_rights(connection)
    add_extension(outbox.owner_url, TableName(), "wake-up")
    outbox.database.run(END_LISTENING)
    wait_until(lambda: degraded() == {} and relay.metric("openoutbox_degraded") == 0, 45, "all to work")
    assert relay.stop() == 0
