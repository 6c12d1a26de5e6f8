"""How much memory a relay takes for large rows, by the operating system's own account, and what is too large."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
import redis

from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.nats import MakeStream
from tests.support.fixtures.outbox import Outbox

pytestmark = pytest.mark.timeout(180)

LIMIT = 300 * 2**20
MIB = 2**20

_LARGE = """
INSERT INTO openoutbox_events (event_id, event_type, payload, available_at)
SELECT gen_random_uuid(), %(event_type)s, made.payload, now() - make_interval(secs => %(due_since)s)
FROM (SELECT decode(repeat('abcdef01', %(size)s / 4), 'hex') AS payload OFFSET 0) AS made,
     generate_series(1, %(count)s)
"""


def insert(outbox: Outbox, event_type: str, size: int, count: int, due_since: float = 0) -> None:
    values = {"event_type": event_type, "size": size, "count": count, "due_since": due_since}
    outbox.database.run(_LARGE, values)


def peak(daemon: Daemon) -> int:
    """The largest resident size that the process ever had, in bytes."""
    status = Path(f"/proc/{daemon.pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def test_one_huge_row_among_small_ones_and_a_thousand_large_ones(
    outbox: Outbox, daemon: StartDaemon, kafka: str, topic: MakeTopic
) -> None:
    """Kafka takes the large ones; the huge one is over its limit: dead at once, and in no other event's way."""
    name = topic(config={"max.message.bytes": str(2 * MIB)})
    insert(outbox, name, MIB, 1000)
    insert(outbox, name, 50 * MIB, 1, due_since=60)
    outbox.fill(name, 10_000)
    relay = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka)
    outbox.wait_finished(120)
    assert outbox.counts() == {"DELIVERED": 11_000, "DEAD": 1}
    [(attempts, error)] = outbox.database.run(
        "SELECT attempts, last_error FROM openoutbox_events WHERE status = 'DEAD'"
    )
    assert attempts == 1
    assert str(50 * MIB) in error
    assert "10485760" in error
    assert peak(relay) < LIMIT
    assert relay.stop() == 0


def test_a_huge_row_that_the_broker_takes_is_claimed_alone_and_delivered(outbox: Outbox, daemon: StartDaemon) -> None:
    outbox.fill("t", 5_000)
    insert(outbox, "t", 50 * MIB, 1)
    outbox.fill("t", 5_000)
    relay = daemon(PUBLISHER_TYPE="null", BATCH_SIZE="1000")
    outbox.wait_finished(60)
    assert outbox.counts() == {"DELIVERED": 10_001}
    assert peak(relay) < LIMIT
    assert relay.stop() == 0


@pytest.mark.redis
def test_a_huge_row_among_small_ones_into_redis(outbox: Outbox, daemon: StartDaemon, redis_url: str) -> None:
    """With all that the process is besides, less than four of the row."""
    name = f"memory.{uuid.uuid4().hex}"
    outbox.fill(name, 5_000)
    insert(outbox, name, 50 * MIB, 1)
    outbox.fill(name, 5_000)
    # A server that shares slow cores with other tests may take seconds to write the row to its log.
    relay = daemon(PUBLISHER_TYPE="redis", PUBLISHER_URL=redis_url, BATCH_SIZE="1000", REDIS_WRITE_TIMEOUT="30s")
    outbox.wait_finished(60)
    assert outbox.counts() == {"DELIVERED": 10_001}
    with redis.Redis.from_url(redis_url) as client:
        assert client.xlen(name) == 10_001
        client.delete(name)
    assert peak(relay) < 4 * 50 * MIB
    assert relay.stop() == 0


async def test_over_the_limit_of_nats(outbox: Outbox, daemon: StartDaemon, nats_url: str, stream: MakeStream) -> None:
    name = await stream()
    insert(outbox, name.subject(), 2 * MIB, 5, due_since=60)
    insert(outbox, name.subject(), 50 * MIB, 1, due_since=60)
    outbox.fill(name.subject(), 10_000)
    relay = daemon(PUBLISHER_TYPE="nats", PUBLISHER_URL=nats_url)
    outbox.wait_finished(120)
    assert outbox.counts() == {"DELIVERED": 10_000, "DEAD": 6}
    errors = outbox.database.run("SELECT last_error FROM openoutbox_events WHERE status = 'DEAD'")
    assert all("max_payload of 1048576" in error for (error,) in errors)
    assert peak(relay) < LIMIT
    assert relay.stop() == 0
