"""A link on which each round trip takes most of a second: slow is not away."""

from __future__ import annotations

import pytest

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.servers.valkey import ValkeyServer
from tests.support.waiting import pace, wait_until
from tests.system.chaos.looking import check_finished

pytestmark = [pytest.mark.timeout(300), pytest.mark.redis]

ROUND_TRIP = 0.8  # seconds; Redis needs about six of them for a probe


def test_redis_over_a_slow_link_is_ready_and_stays_it(outbox: Outbox, daemon: StartDaemon) -> None:
    with ValkeyServer(settings={"requirepass": "p"}) as server, TcpProxy(server.port) as proxy:
        proxy.delay = ROUND_TRIP
        relay = daemon(
            PUBLISHER_URL=server.url.replace(str(server.port), str(proxy.port)),
            PUBLISHER_CONNECT_RETRY_INTERVAL="1s",
            HEALTH_CHECK_INTERVAL="1s",
            REDIS_CONNECTION_TIMEOUT="10s",
            REDIS_WRITE_TIMEOUT="5s",
        ).wait_ready()
        pauses = relay.log().count("broker_unreachable")
        for _ in range(2):
            outbox.fill("orders", 50)
            pace(4)  # health checks go on
        wait_until(lambda: outbox.counts() == {"DELIVERED": 100}, what="every event to be delivered")
        check_finished(outbox)
        assert outbox.rows("max(attempts)") == [(0,)]
        assert relay.log().count("broker_unreachable") == pauses, "a slow broker was not taken for one that is away"
