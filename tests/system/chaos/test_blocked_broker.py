"""RabbitMQ under a memory alarm beside Redis, both real: Redis gets everything, in order and in a fan-out, too."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
import redis

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.rabbitmq import RabbitServer
from tests.support.waiting import patience, wait_until

pytestmark = [pytest.mark.timeout(240), pytest.mark.redis, pytest.mark.xdist_group("rabbitmq")]

ROUTES = """
[[route]]
type = "{queue}"
via = "queue"

[[route]]
type = "{both}"
via = ["cache", "queue"]
"""


# The conformance suite's laws have each of the others, in the test's process, with every broker.
@pytest.mark.parametrize("way", ["fan-out", *(pytest.param(way, marks=pytest.mark.soak) for way in ("none", "key"))])
def test_the_other_broker_flows_while_one_is_blocked(
    outbox: Outbox, daemon: StartDaemon, breakable_rabbitmq: RabbitServer, redis_url: str, tmp_path: Path, way: str
) -> None:
    if way != "none":
        add_extension(outbox.owner_url, TableName(), "key-order" if way == "key" else way)
        with outbox.database.connect() as connection:
            give_rights(connection)
    queue, both = (f"{name}.{uuid.uuid4().hex}" for name in ("queue", "both"))
    routes, destinations = tmp_path / "routes.toml", tmp_path / "destinations.toml"
    routes.write_text(ROUTES.format(queue=queue, both=both))
    destinations.write_text(f'[cache]\nurl = "{redis_url}"\n[queue]\nurl = "{breakable_rabbitmq.url}"\n')
    waiting, flowing = (both, both) if way == "fan-out" else (queue, f"cache.{uuid.uuid4().hex}")
    with RabbitAdmin(breakable_rabbitmq.url) as admin:
        admin.declare(waiting)

    def cached() -> int:
        with redis.Redis.from_url(redis_url, socket_timeout=patience()) as client:
            return int(client.xlen(flowing))

    with breakable_rabbitmq.without_memory():
        relay = daemon(
            ROUTES_FILE=str(routes),
            DESTINATIONS_FILE=str(destinations),
            ORDERING="key" if way == "key" else "none",
            BATCH_SIZE="50",
            MAX_IN_FLIGHT="400",
            PUBLISHER_CONNECT_RETRY_INTERVAL="1s",
        ).wait_ready()
        outbox.insert([Row(waiting, partition_key=f"a{n}") for n in range(1000)])
        if way != "fan-out":
            outbox.insert([Row(flowing, partition_key=f"b{n}") for n in range(1000)])
        wait_until(lambda: cached() == 1000, 20, what="the other broker to have all of its events")
        status, body = relay.get("/readyz")
        assert status == 200
        assert "memory" in body
        assert relay.metric("openoutbox_destination_state", destination="queue") == 3
    wait_until(lambda: not outbox.unfinished(), 90, what="the blocked one to have its own")
    assert cached() == 1000
    assert outbox.rows("max(attempts)") == [(0,)]
