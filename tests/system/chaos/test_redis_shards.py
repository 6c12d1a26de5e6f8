"""A node of a Redis Cluster is gone or hangs, and nothing takes its place: the events for the others go on."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence

import pytest

from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.valkey import ValkeyServer
from tests.support.servers.valkey_groups import ValkeyCluster
from tests.support.waiting import PATIENCE, pace, wait_until
from tests.system.chaos.looking import check_finished, delivered, seconds_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.redis]

TURNS = 10
BOUND = 2.0 * PATIENCE
"""Seconds, of which 99 of 100 events of the other shards take less."""
_SLOW = """
SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM delivered_at - created_at))::float8,
       max(attempts)
FROM openoutbox_events WHERE created_at >= %s
"""


# One that hangs is in a law of the conformance suite, too, behind a proxy.
@pytest.mark.parametrize("fault", ["gone", pytest.param("hangs", marks=pytest.mark.soak)])
def test_the_other_shards_flow_while_one_does_not_answer(
    outbox: Outbox, daemon: StartDaemon, measured: Measured, fault: str
) -> None:
    with ValkeyCluster(3) as cluster:
        streams = {cluster.owner(name): name for name in map("stream-{}".format, range(60))}
        starts = ",".join(f"127.0.0.1:{one.port}" for one in cluster.nodes)
        relay = daemon(PUBLISHER_URL=f"redis+cluster://{starts}", PUBLISHER_CONNECT_RETRY_INTERVAL="500ms").wait_ready()
        outbox.insert([Row(name) for name in streams.values()])
        wait_until(lambda: outbox.counts() == {"DELIVERED": 3}, 20, "an event of each shard to be delivered")
        measured(**without_answers(outbox, relay, cluster.nodes[2], fault, list(streams.values())))


def without_answers(
    outbox: Outbox, relay: Daemon, node: ValkeyServer, fault: str, streams: Sequence[str]
) -> dict[str, object]:
    """Events for each shard while one of them is gone or hangs, until it has its own; the figures."""
    before = delivered(outbox)
    [(since,)] = outbox.database.run("SELECT clock_timestamp()")
    node.stop(signal.SIGKILL) if fault == "gone" else os.kill(node.pid, signal.SIGSTOP)
    for _ in range(TURNS):
        outbox.insert([Row(name) for name in streams for _ in range(5)])
        pace(0.2)
    seconds = seconds_until(lambda: delivered(outbox) == before + TURNS * 10, 20, "the others to have their events")
    [(slow, attempts)] = outbox.database.run(_SLOW, [since])
    assert (relay.get("/readyz")[0], attempts) == (200, 0)
    cause = re.compile(f'"destination redis/127.0.0.1:{node.port}": ?"degraded: away since ')
    wait_until(lambda: cause.search(relay.get("/readyz")[1]), 30, "the node to be named, which is slow before that")
    node.start() if fault == "gone" else os.kill(node.pid, signal.SIGCONT)
    recovery = seconds_until(lambda: not outbox.unfinished(), 90, "the shard to have its own")
    wait_until(lambda: f"redis/127.0.0.1:{node.port}" not in relay.get("/readyz")[1], 60, "its state to end")
    check_finished(outbox)
    assert slow < BOUND
    return {
        "fault": f"a shard of Redis {fault}",
        "others_p99_s": slow,
        "others_all_s": seconds,
        "recovery_s": recovery,
    }
