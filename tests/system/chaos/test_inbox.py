"""Each effect exactly once: every message twice, consumers killed in the middle, and what they held delivered again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.cli.running import answer
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until
from tests.system.chaos.consuming import (
    GROUP,
    Consumed,
    ConsumedKafka,
    ConsumedNats,
    ConsumedRedis,
    ExampleConsumers,
    example_consumers,
)

_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload)
SELECT gen_random_uuid(), %(topic)s, 'key-' || n %% 100,
       convert_to(json_build_object('customer', 'customer-' || n, 'amount', 1)::text, 'UTF8')
FROM generate_series(1, %(count)s) AS n
"""
_ROUND = 60.0  # seconds that a round of a small run may take without progress


@pytest.fixture(
    params=[
        pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.soak]),
        pytest.param("nats", marks=[pytest.mark.nats, pytest.mark.soak]),
        pytest.param("redis", marks=pytest.mark.redis),
    ]
)
def consumed(request: pytest.FixtureRequest) -> Consumed:
    """A new destination of one broker: the effects are the inbox's, so that one of them shows it in `make test`."""
    if request.param == "kafka":
        return ConsumedKafka(request.getfixturevalue("kafka"))
    if request.param == "nats":
        return ConsumedNats(request.getfixturevalue("nats_url"))
    return ConsumedRedis(request.getfixturevalue("redis_url"))


@pytest.fixture
def consumer_outbox(outbox: Outbox) -> Outbox:
    """The producer's database, which is the consumer's, too."""
    create(outbox.url, TableName(DEFAULT_INBOX), ["dead-letters"])
    return outbox


def handled(consumers: ExampleConsumers) -> int:
    """How many deliveries were handled, repeats included."""
    text = consumers.said()
    return text.count(" counted\n") + text.count(" seen before\n")


def kill_at(consumers: ExampleConsumers, deliveries: int, deadline: float) -> None:
    """Kill a consumer once so many deliveries were handled; the others, and a new one, go on."""
    wait_until(lambda: handled(consumers) >= deliveries, deadline, f"{deliveries} deliveries to be handled")
    consumers.kill_one()


def follow(outbox: Outbox, consumed: Consumed, folder: Path, count: int, deadline: float) -> None:
    """``count`` events, each sent twice, to two consumers of which one is killed four times."""
    broker = {"PUBLISHER_TYPE": consumed.kind, "PUBLISHER_URL": consumed.url}
    outbox.database.run(_FILL, {"topic": consumed.topic, "count": count})
    began = time.monotonic()
    with Daemon(outbox.relay_url, broker), example_consumers(consumed, outbox.url, folder) as consumers:
        for percent in (10, 40):
            kill_at(consumers, count * percent // 100, deadline)
        outbox.wait_finished(deadline)
        done = answer(folder, "replay", "--status", "delivered", "--yes", STORAGE_URL=outbox.relay_url, **broker)
        assert done["delivered"] == count
        for percent in (100, 140):
            kill_at(consumers, count * percent // 100, deadline)
        outbox.wait_finished(deadline)
        wait_until(consumed.is_consumed, deadline, "every message to be acknowledged")
        repeats = consumers.said().count(" seen before\n")
    print(f"\n{consumed.kind}: {count} events, {repeats} repeats, {time.monotonic() - began:.0f} s")
    assert repeats + consumers.kills >= count, "a message came only once, so nothing was tried"
    assert outbox.database.run("SELECT count(*), min(total), max(total) FROM revenue") == [(count, 1, 1)]
    marks = "SELECT consumer, count(*) FROM openoutbox_inbox JOIN openoutbox_events AS event ON event.event_id::text"
    assert outbox.database.run(f"{marks} = openoutbox_inbox.event_id GROUP BY consumer") == [(GROUP, count)]


@pytest.mark.timeout(400)
def test_each_effect_happens_once_though_consumers_are_killed(
    consumer_outbox: Outbox, consumed: Consumed, tmp_path: Path
) -> None:
    follow(consumer_outbox, consumed, tmp_path, 800, _ROUND)


@pytest.mark.scale
@pytest.mark.timeout(3600)
def test_each_of_100_000_effects_happens_once(consumer_outbox: Outbox, consumed: Consumed, tmp_path: Path) -> None:
    follow(consumer_outbox, consumed, tmp_path, 100_000, 1800)
