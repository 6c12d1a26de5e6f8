"""A vhost of RabbitMQ that lets one connection be opened: the events have it, and probes do without."""

from __future__ import annotations

import pytest

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.rabbitmq import NARROW
from tests.support.waiting import pace, wait_until
from tests.system.chaos.looking import check_finished

pytestmark = [pytest.mark.timeout(240), pytest.mark.rabbitmq]


def test_with_room_for_one_connection_the_relay_does_not_pause(
    outbox: Outbox, daemon: StartDaemon, rabbitmq_url: str
) -> None:
    url = rabbitmq_url + NARROW[1]
    with RabbitAdmin(url) as admin:
        admin.declare("orders")
    relay = daemon(
        PUBLISHER_URL=url, PUBLISHER_CONNECT_RETRY_INTERVAL="500ms", HEALTH_CHECK_INTERVAL="200ms"
    ).wait_ready()

    def pauses() -> int:
        return sum(line.get("action") == "broker_unreachable" for line in relay.log_lines())

    begun = 0
    for turn in range(1, 13):
        outbox.fill("orders", 10)
        wait_until(lambda count=turn: outbox.counts() == {"DELIVERED": 10 * count}, 20, "them to be delivered")  # type: ignore[misc]
        begun = begun or pauses() + 1
        pace(0.2)
    check_finished(outbox)
    assert outbox.rows("max(attempts)") == [(0,)]
    assert pauses() == begun - 1, "one before the first event may be: the last probe's connection still counts then"
