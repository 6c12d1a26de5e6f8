"""``ON_DELIVERED=delete``: a delivery deletes its row; metrics and the delivery log are as with ``keep``."""

from __future__ import annotations

import json

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until


def test_it_waits_for_its_right_then_deletes_what_it_delivers(outbox: Outbox, daemon: StartDaemon) -> None:
    outbox.fill("good", 250)
    outbox.database.run("UPDATE openoutbox_events SET partition_key = NULL WHERE partition_key = 'key-1'")
    relay = daemon(PUBLISHER_TYPE="null", ON_DELIVERED="delete", DELIVERY_LOG_URL=outbox.url)
    wait_until(lambda: relay.running and "right to delete rows" in relay.get("/readyz")[1], what="the missing right")
    assert "GRANT DELETE" in json.loads(relay.get("/readyz")[1])["storage"]
    assert outbox.counts() == {"PENDING": 250}

    outbox.database.run("GRANT DELETE ON openoutbox_events TO openoutbox_relay")

    wait_until(lambda: relay.running and outbox.counts() == {}, what="the rows to be deleted")
    wait_until(lambda: relay.metric("openoutbox_events_total", status="success") == 250, what="the count")
    assert relay.metric("openoutbox_events_e2e_latency_seconds_count") == 250
    assert relay.metric("openoutbox_leases_lost_total") == 0
    assert relay.metric("openoutbox_storage_latency_seconds_count", op="mark_delivered", status="success") >= 1
    wait_until(lambda: relay.metric("openoutbox_log_written_total") == 250, what="the delivery log")
    assert relay.stop() == 0
