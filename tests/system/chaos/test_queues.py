"""A queue of SQS that hangs, and keys of RabbitMQ that are forbidden: what that costs the events beside them."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.brokers.harness.base import NEVER, Marking
from tests.support.fixtures.aws import NewName
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.rabbitmq import add_letters
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.aws import CREDENTIALS, publisher_url
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.waiting import patience, wait_until

pytestmark = pytest.mark.timeout(240)


@pytest.mark.aws
@pytest.mark.xdist_group("aws")
# Without order it is a law of the conformance suite.
@pytest.mark.parametrize("ordering", ["key", pytest.param("none", marks=pytest.mark.soak)])
def test_a_queue_that_hangs_holds_up_no_event_of_another(
    outbox: Outbox, daemon: StartDaemon, aws_url: str, new_queue: NewName, ordering: str
) -> None:
    """With more events waiting for it than may be in flight."""
    bad, good = new_queue(""), new_queue("")
    if ordering == "key":
        add_extension(outbox.owner_url, TableName(), "key-order")
    with TcpProxy(int(aws_url.rpartition(":")[2])) as proxy:
        proxy.tap = tap = Marking(bad, cut=False)
        proxy.slow_links, proxy.delay = tap.links, NEVER
        relay = daemon(
            **CREDENTIALS,
            PUBLISHER_URL=publisher_url("sqs", f"http://127.0.0.1:{proxy.port}"),
            ORDERING=ordering,
        ).wait_ready()
        outbox.insert([Row(bad)] * 1000)

        def delivered(events: int) -> bool:
            return outbox.rows(f"count(*) FILTER (WHERE event_type = '{good}' AND status = 'DELIVERED')") == [(events,)]

        held = f"count(*) FILTER (WHERE event_type = '{bad}' AND status = 'DELIVERING')"
        wait_until(lambda: outbox.rows(held)[0][0] >= 400, what="the queue to hold places")
        for number in range(1, 11):
            outbox.insert([Row(good)] * 20)
            wait_until(partial(delivered, 20 * number), what="the other queue's events")
        [(slowest,)] = outbox.rows(f"max(delivered_at - created_at) FILTER (WHERE event_type = '{good}')")
        assert slowest.total_seconds() < patience(2.0)
        said = re.compile(f'"destination sqs/{bad}": ?"degraded: (slow|away) since ')
        wait_until(lambda: said.search(relay.get("/readyz")[1]), what="/readyz to say so of this queue")
        assert relay.get("/readyz")[0] == 200
        wait_until(
            lambda: json.loads(relay.get("/stats")[1])["destinations"][f"sqs/{bad}"]["state"] == "away",
            what="/stats to say that it is away",
        )
        shown = re.compile(rf'^openoutbox_destination_state{{.*destination="sqs/{bad}".*}} 4', re.MULTILINE)
        assert shown.search(relay.get("/metrics")[1])
        assert f"sqs/{good}" not in relay.get("/metrics")[1]


def test_forbidden_keys_that_the_server_cuts_make_no_other_event_dead(
    outbox: Outbox, daemon: StartDaemon, rabbit: RabbitAdmin, rabbitmq_url: str
) -> None:
    """Ten of 234 bytes, which begin alike: the server's text does not say which of them it is about."""
    forbidden = [f"forbidden.{'x' * 223}{number}" for number in range(10)]
    add_letters(rabbit)
    before = rabbit.count("letters")
    daemon(
        PUBLISHER_URL=f"amqp://picky:right@{rabbitmq_url.rpartition('@')[2]}",
        RABBITMQ_EXCHANGE="events",
        RETRY_MAX_ATTEMPTS="2",
        RETRY_BASE_DELAY="100ms",
        RETRY_MAX_DELAY="100ms",
    ).wait_ready()
    outbox.insert([Row(name) for one in forbidden for name in [one] + ["allowed.a"] * 20])
    wait_until(lambda: not outbox.unfinished(), 120, "all to be decided")
    assert rabbit.count("letters") >= before + 200
    fates = "SELECT event_type LIKE 'forbidden.%', status, count(*), max(attempts) FROM openoutbox_events GROUP BY 1, 2"
    assert sorted(outbox.database.run(fates)) == [(False, "DELIVERED", 200, 0), (True, "DEAD", 10, 2)]
