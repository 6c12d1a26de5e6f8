"""docs/reference/messages.md on Redis, through the daemon: what a consumer reads from the stream."""

from __future__ import annotations

import uuid
from datetime import timedelta

import redis

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import wait_until

HEADERS = {
    '{"n": 12345678901234567890123, "f": 1.10, "b": false, "x": null, "o": {"k": [1, 2]}, "s": "wert ✓"}': {
        "h:n": "12345678901234567890123",
        "h:f": "1.10",
        "h:b": "false",
        "h:x": "null",
        "h:o": '{"k": [1, 2]}',
        "h:s": "wert ✓",
    },
    '{"id": "forged", "payload": "forged", "partition_key": "forged", "two words": "a\\r\\nb", "": "no name"}': {
        "h:id": "forged",
        "h:payload": "forged",
        "h:partition_key": "forged",
        "h:two words": "a\r\nb",
        "h:": "no name",
    },
    "[1, 2]": {"h:X-Raw-Headers": "[1, 2]"},
    "null": {"h:X-Raw-Headers": "null"},
    "{}": {},
}


def test_fields_of_a_stream_entry(outbox: Outbox, daemon: StartDaemon, redis_url: str) -> None:
    stream = f"contract {uuid.uuid4()} ✓"
    rows = [Row(stream, bytes(range(256)), key, headers) for headers in HEADERS for key in (None, "", "ключ")]
    ids = outbox.insert(rows)
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"{stream} taken", "no stream")
        [refused] = outbox.insert([Row(f"{stream} taken")])
        relay = daemon(PUBLISHER_TYPE="redis", PUBLISHER_URL=redis_url, RETRY_BASE_DELAY="1h", RETRY_JITTER="0")
        wait_until(lambda: relay.running and outbox.counts().get("DELIVERED") == len(rows), what="the deliveries")
        wait_until(lambda: outbox.row(refused)["attempts"] == 1, what="the refusal")
        messages = {fields.pop(b"id").decode(): fields for _, fields in client.xrange(stream)}
        client.delete(stream, f"{stream} taken")
    for event_id, row in zip(ids, rows, strict=True):
        expected = {name.encode(): value.encode() for name, value in HEADERS[row.headers].items()}
        expected[b"payload"] = row.payload
        if row.partition_key is not None:
            expected[b"partition_key"] = row.partition_key.encode()
        assert messages[event_id] == expected
    waiting = outbox.row(refused)
    assert (waiting["status"], bool(waiting["last_error"])) == ("PENDING", True)
    assert outbox.database.run("SELECT available_at - updated_at FROM openoutbox_events WHERE attempts = 1") == [
        (timedelta(hours=1),)
    ]
    assert relay.stop() == 0
