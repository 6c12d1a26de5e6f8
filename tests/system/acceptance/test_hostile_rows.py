"""Hostile rows among good ones: each ends as the contract says, and the good ones do not wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.kafka import MakeTopic, create_topic
from tests.support.fixtures.nats import MakeStream
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.messages import READ_ONLY, kafka_headers, kafka_key
from tests.support.waiting import patience, wait_until

pytestmark = pytest.mark.timeout(180)

GOOD = 5_000

HEADERS: dict[str, dict[str, str]] = {
    '{"ünïcode ✓": "wert ✓", "n": 12345678901234567890123, "f": 1.10, "b": true, "x": null, "o": {"k": [1, 2]}}': {
        "ünïcode ✓": "wert ✓",
        "n": "12345678901234567890123",
        "f": "1.10",
        "b": "true",
        "x": "null",
        "o": '{"k": [1, 2]}',
    },
    "[1, 2]": {"X-Raw-Headers": "[1, 2]"},
    '"text"': {"X-Raw-Headers": '"text"'},
    "17": {"X-Raw-Headers": "17"},
    "null": {"X-Raw-Headers": "null"},
    '{"X-Event-ID": "forged"}': {"X-User-X-Event-ID": "forged"},
}
BINARY = bytes(range(256))


@dataclass(frozen=True)
class Hostile:
    """The odd rows that still are deliverable, and those that never are."""

    deliverable: dict[str, Row]
    dead: list[str]
    waiting: str


def _insert(outbox: Outbox, good: str, bad_types: list[str], too_large: int, absent: str) -> Hostile:
    odd = [Row(good, BINARY, "ключ", "{}"), Row(good, b"", None, "{}")]
    odd += [Row(good, b"x", "k", headers) for headers in HEADERS]
    outbox.fill(good, GOOD // 2)
    odd_ids = outbox.insert(odd)
    dead = outbox.insert([Row(bad) for bad in bad_types] + [Row(good, b"z" * too_large)])
    [waiting] = outbox.insert([Row(absent)])
    outbox.fill(good, GOOD // 2)
    return Hostile(dict(zip(odd_ids, odd, strict=True)), dead, waiting)


def _check_table(outbox: Outbox, hostile: Hostile, relay: Daemon) -> None:
    wait_until(
        lambda: relay.running and outbox.counts().get("DEAD", 0) == len(hostile.dead),
        60,
        "the refused events to be dead",
    )
    delivered = GOOD + len(hostile.deliverable)
    wait_until(lambda: outbox.counts().get("DELIVERED", 0) == delivered, what="the good events to be delivered")
    for event_id in hostile.dead:
        row = outbox.row(event_id)
        assert row["attempts"] == 1
        assert row["last_error"]
    wait_until(lambda: outbox.row(hostile.waiting)["attempts"] != 0, what="the missing topic to be tried")
    waiting = outbox.row(hostile.waiting)
    assert waiting["status"] in ("PENDING", "DELIVERING")
    assert waiting["last_error"]
    outbox.check_invariants()


def test_kafka(
    outbox: Outbox,
    daemon: StartDaemon,
    kafka: str,
    topic: MakeTopic,
    consume: Callable[..., list[Message]],
) -> None:
    name = topic()
    bad_types = ["", "with space", "slash/ed", "a" * 250, "..", "ünïcode", "new\nline"]
    hostile = _insert(outbox, name, bad_types, too_large=11 * 2**20, absent=f"{name}.absent")
    relay = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka, RETRY_BASE_DELAY="200ms", RETRY_MAX_DELAY="1s")
    _check_table(outbox, hostile, relay)
    by_id = {}
    for message in consume(name, GOOD + len(hostile.deliverable)):
        headers = kafka_headers(message)
        by_id[headers.pop("X-Event-ID")] = (kafka_key(message), message.value(), headers)
    for event_id, row in hostile.deliverable.items():
        assert by_id[event_id] == (row.partition_key, row.payload, HEADERS.get(row.headers, {}))
    topic_made_later = f"{name}.absent"
    topic_name = _create(kafka, topic_made_later)
    wait_until(lambda: outbox.row(hostile.waiting)["status"] == "DELIVERED", what="the late topic to get its event")
    assert len(consume(topic_name, 1)) == 1
    assert relay.stop() == 0


def _create(bootstrap: str, name: str) -> str:
    return create_topic(AdminClient({"bootstrap.servers": bootstrap}), name)


async def test_nats(outbox: Outbox, daemon: StartDaemon, nats_url: str, stream: MakeStream, jetstream: object) -> None:
    channel = await stream()
    bad_types = ["", "with space", f"{channel.prefix}.*", f"{channel.prefix}.>", "dots..dots", ".leading", "trailing."]
    absent = f"absent{channel.prefix}.later"
    hostile = _insert(outbox, channel.subject(), bad_types, too_large=2 * 2**20, absent=absent)
    relay = daemon(PUBLISHER_TYPE="nats", PUBLISHER_URL=nats_url, RETRY_BASE_DELAY="200ms", RETRY_MAX_DELAY="1s")
    _check_table(outbox, hostile, relay)
    subscription = await jetstream.pull_subscribe(channel.subject(">"), stream=channel.name, config=READ_ONLY)  # type: ignore[attr-defined]
    by_id: dict[str, tuple[str | None, bytes, dict[str, str]]] = {}
    while len(by_id) < GOOD + len(hostile.deliverable):
        for message in await subscription.fetch(1000, timeout=patience(10)):
            headers = dict(message.headers or {})
            by_id[headers.pop("Nats-Msg-Id")] = (headers.pop("X-Partition-Key", None), message.data, headers)
    for event_id, row in hostile.deliverable.items():
        key, payload, headers = by_id[event_id]
        assert payload == row.payload
        if row.headers == "{}" or row.headers.startswith(("[", '"', "17", "null")):
            assert headers == HEADERS.get(row.headers, {}), json.dumps(headers)
        assert (key is None) == (row.partition_key is None)
    assert relay.stop() == 0
