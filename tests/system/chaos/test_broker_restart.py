"""A NATS server restarts, and a Kafka partition's leader is killed, while writers insert."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.kafka_cluster import KafkaCluster
from tests.support.servers.nats import NatsServer
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.waiting import patience, wait_until
from tests.system.chaos.brokers import Nats, read_topic
from tests.system.chaos.load import Writers
from tests.system.chaos.looking import (
    Balance,
    check_finished,
    delivered,
    first_delivery_after,
    log_lines,
    watch_setbacks,
)

pytestmark = pytest.mark.timeout(300)

GRACE = patience(6)
"""Seconds of grace for a machine on which other tests run."""


# A server that is killed says less than one that stops in good order.
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)], ids=lambda how: how.name
)
def test_a_nats_server_restarts(
    outbox: Outbox, own_nats: NatsServer, daemon: StartDaemon, how: signal.Signals, measured: Measured
) -> None:
    watch_setbacks(outbox)
    with TcpProxy(own_nats.port) as proxy:
        broker = Nats(proxy, own_nats.url)
        relay = daemon(**broker.env(), PUBLISHER_CONNECT_RETRY_INTERVAL="2s").wait_ready()
        with Writers(outbox.url, broker.destination) as writers:
            wait_until(lambda: relay.running and delivered(outbox) > 300, what="the drain to be under way")
            began = time.time()
            own_nats.stop(how)
            wait_until(lambda: relay.metric("openoutbox_relay_state") == 2, what="the relay to be paused")
            assert relay.get("/readyz")[0] == 503
            own_nats.start()
            back = time.time()
            recovery = first_delivery_after(outbox, back, 60)
            ended = time.time()
        outbox.wait_finished(60)
        check_finished(outbox)
        assert outbox.rows("max(attempts), max(last_error)") == [(0, None)]
        balance = Balance.of(writers, broker.received())
    balance.check()
    assert recovery < 2.0 + 2.0 + GRACE
    measured(
        fault=f"NATS server restarted by {how.name}",
        recovery_s=recovery,
        duplicates=balance.duplicates,
        lost=balance.lost,
        attempts_used=0,
        log_lines=log_lines(relay, began, ended)[0],
        events=balance.committed,
    )


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        yield cluster


def leader_of(admin: AdminClient, topic: str) -> tuple[int, int]:
    """The leader, and how many replicas are in sync; (-1, 0) while the broker that was asked is going."""
    try:
        leaders = admin.list_topics(topic, timeout=patience()).topics[topic].partitions
    except KafkaException:
        return -1, 0
    return (leaders[0].leader, len(leaders[0].isrs)) if leaders else (-1, 0)


# The second change wants the first broker back, and so two more starts of a JVM.
@pytest.mark.parametrize(
    "changes",
    [[signal.SIGKILL], pytest.param([signal.SIGKILL, signal.SIGTERM], marks=pytest.mark.soak)],
    ids=["killed", "and stopped"],
)
@pytest.mark.xdist_group("chaos-kafka")
@pytest.mark.kafka
def test_a_kafka_leader_changes(
    outbox: Outbox, cluster: KafkaCluster, daemon: StartDaemon, measured: Measured, changes: list[signal.Signals]
) -> None:
    """First it is killed, and comes back; then the next one is stopped in good order."""
    admin = AdminClient({"bootstrap.servers": cluster.url})
    topic = f"chaos.{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=3)])[topic].result(patience())

    partition = partial(leader_of, admin, topic)
    watch_setbacks(outbox)
    relay = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=cluster.url).wait_ready()
    recovery: dict[str, float] = {}
    first = 0
    with Writers(outbox.url, topic) as writers:
        wait_until(lambda: relay.running and delivered(outbox) > 300, what="the drain to be under way")
        began = time.time()
        for how in changes:
            if first:
                cluster.nodes[first].stop()
                cluster.nodes[first].start()
            wait_until(lambda: partition()[1] == 3, what="all replicas to be in sync")
            first, since = partition()[0], time.time()
            os.kill(cluster.nodes[first].pid, how)
            recovery[how.name] = first_delivery_after(outbox, since, 90, f"created_at > to_timestamp({since})")
            wait_until(lambda leader=first: partition()[0] not in (leader, -1), what="another leader")  # type: ignore[misc]
        ended = time.time()
    outbox.wait_finished(90)
    check_finished(outbox)
    balance = Balance.of(writers, read_topic(cluster.url, topic))
    balance.check()
    measured(
        fault="Kafka leader gone, three brokers",
        recovery_s=recovery,
        duplicates=balance.duplicates,
        lost=balance.lost,
        attempts_used=outbox.rows("sum(attempts)")[0][0],
        log_lines=log_lines(relay, began, ended)[0],
        events=balance.committed,
    )
