"""REDIS_WAIT_REPLICAS: an event counts once its replicas have it, and what Sentinels say of the primary is followed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import redis

from relay.brokers.kinds import CheckContext
from relay.brokers.redis.check import check
from relay.core.finding import Finding, Level
from relay.core.outcome import ACKNOWLEDGED, Away, Outcome
from tests.brokers.harness.base import make_event
from tests.brokers.redis.test_moving import length, opened, outcomes
from tests.support.options import redis_options
from tests.support.servers.valkey import ValkeyServer
from tests.support.servers.valkey_groups import SERVICE, ValkeySentinel, ask, role
from tests.support.waiting import eventually, patience, wait_until, wait_until_async

pytestmark = pytest.mark.redis

AT_ONCE = {"repl-diskless-sync-delay": "0"}
CONTEXT = CheckContext(repeated_within=191.0, retry_max_delay=60.0, sample=100, timeout=10.0)


class Pair(NamedTuple):
    """A server and its replica, which is in step."""

    primary: ValkeyServer
    replica: ValkeyServer


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ValkeyServer(settings=AT_ONCE) as primary, ValkeyServer(settings=AT_ONCE) as replica:
        ask(replica, "REPLICAOF", "127.0.0.1", primary.port)
        with redis.Redis.from_url(primary.url) as client:
            client.set("written", "")
            wait_until(lambda: client.wait(1, 1000) == 1, what="the replica to be in step")
        yield Pair(primary, replica)


def blocked(outcome: Outcome) -> bool:
    return isinstance(outcome, Away) and "REDIS_WAIT_REPLICAS=1" in outcome.reason


async def test_what_is_acknowledged_is_on_the_replica(pair: Pair) -> None:
    publisher = await opened(pair.primary.url, wait_replicas=1, write_timeout=patience(1.0))
    events = [make_event("s", str(number).encode()) for number in range(1000)]
    assert await outcomes(publisher, events) == [ACKNOWLEDGED] * 1000
    assert length(pair.replica, "s") == 1000
    await publisher.close()


async def test_with_too_few_replicas_nothing_is_written_and_nothing_fails(own_redis: ValkeyServer) -> None:
    publisher = await opened(own_redis.url, wait_replicas=1)
    for _ in range(2):
        assert all(map(blocked, await outcomes(publisher, [make_event("s") for _ in range(300)])))
    assert length(own_redis, "s") == 0
    with ValkeyServer() as replica:
        ask(replica, "REPLICAOF", "127.0.0.1", own_redis.port)

        async def acknowledged() -> bool:
            return await outcomes(publisher, [make_event("s")]) == [ACKNOWLEDGED]

        await wait_until_async(acknowledged, what="the replica to be used")
    await publisher.close()


async def test_a_replica_that_hangs_costs_no_attempt_and_a_trial_stores_one_event(pair: Pair) -> None:
    publisher = await opened(pair.primary.url, wait_replicas=1, write_timeout=0.5)
    assert await outcomes(publisher, [make_event("s")]) == [ACKNOWLEDGED]
    os.kill(pair.replica.pid, signal.SIGSTOP)
    try:
        assert all(map(blocked, await outcomes(publisher, [make_event("s") for _ in range(1000)])))
        before = length(pair.primary, "s")
        assert all(map(blocked, await outcomes(publisher, [make_event("s") for _ in range(1000)])))
        assert length(pair.primary, "s") == before + 1
    finally:
        os.kill(pair.replica.pid, signal.SIGCONT)
    await publisher.close()


async def test_an_event_that_the_primary_refuses_has_its_own_outcome(pair: Pair) -> None:
    publisher = await opened(pair.primary.url, wait_replicas=1, write_timeout=patience(1.0))
    ask(pair.primary, "SET", "text", "x")
    first, wrong, last = await outcomes(publisher, [make_event("s"), make_event("text"), make_event("s")])
    assert [first, last] == [ACKNOWLEDGED] * 2
    assert getattr(wrong, "code", "") == "WRONGTYPE"
    await publisher.close()


async def test_a_user_without_the_right_to_wait_is_told_so(pair: Pair) -> None:
    ask(pair.primary, "ACL", "SETUSER", "writer", "on", ">s3cret", "~s", "+xadd")
    url = pair.primary.url.replace("redis://", "redis://writer:s3cret@")
    publisher = await opened(url, wait_replicas=1)
    [outcome] = await outcomes(publisher, [make_event("s")])
    assert isinstance(outcome, Away)
    assert "NOPERM" in outcome.reason
    await publisher.close()
    [finding] = await check(redis_options(url, wait_replicas=1), None, CONTEXT)
    assert finding.level is Level.ERROR
    assert "+wait" in finding.advice


async def test_check_counts_the_replicas(pair: Pair) -> None:
    async def findings(wanted: int) -> list[Finding]:
        return await check(redis_options(pair.primary.url, wait_replicas=wanted), None, CONTEXT)

    assert await findings(0) == []
    assert [finding.level for finding in await findings(1)] == [Level.OK]
    [few] = await findings(2)
    assert few.level is Level.ERROR
    assert few.message == f"replicas in step with 127.0.0.1:{pair.primary.port}: 1; REDIS_WAIT_REPLICAS=2"


async def test_a_sentinels_new_primary_is_used_before_the_old_one_is_demoted(pair: Pair) -> None:
    with ValkeySentinel(pair.primary) as sentinel:
        await eventually(lambda: sentinel.can_promote(pair.replica), what="the Sentinel to know the replica")
        publisher = await opened(f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/{SERVICE}")
        assert await outcomes(publisher, [make_event("s")]) == [ACKNOWLEDGED]
        ask(sentinel, "SENTINEL", "FAILOVER", SERVICE)

        await eventually(lambda: role(pair.replica) == "master", what="the replica to be promoted")

        async def is_used() -> bool:
            before = length(pair.replica, "s")
            await outcomes(publisher, [make_event("s")])
            return length(pair.replica, "s") == before + 1

        await wait_until_async(is_used, what="the new primary to be used")
        assert role(pair.primary) == "master", "the old one still takes writes"
        await publisher.close()
