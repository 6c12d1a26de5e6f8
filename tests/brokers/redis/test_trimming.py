"""The trimming that docs/reference/messages.md advises consumers to do: nothing that a group needs is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import redis

from tests.support.documents import blocks
from tests.support.servers.valkey import ValkeyServer

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def trim() -> Callable[[redis.Redis, str], int]:
    [code] = [block.text for block in blocks("docs/reference/messages.md") if block.language == "python"]
    names: dict[str, Any] = {}
    exec(code, names)  # the page's own function
    return cast("Callable[[redis.Redis, str], int]", names["trim"])


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as one:
        yield one


@pytest.fixture
def client(server: ValkeyServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, decode_responses=True) as one:
        one.flushall()
        yield one


def read(client: redis.Redis, group: str, count: int, acknowledged: slice) -> list[str]:
    """Read as a consumer of a group, and acknowledge some of it. Returns the ids."""
    [(_, entries)] = cast("Any", client.xreadgroup(group, "one", {"s": ">"}, count=count))
    ids = [entry for entry, _ in entries]
    client.xack("s", group, *ids[acknowledged])
    return ids


@pytest.mark.parametrize(
    ("acknowledged", "needed_from"),
    [(slice(None), 549), (slice(320, None), 0), (slice(0, 320), 320)],
    ids=["all of it", "not the first", "not the last"],
)
def test_what_the_slowest_group_has_not_acknowledged_stays(
    client: redis.Redis, trim: Callable[[redis.Redis, str], int], acknowledged: slice, needed_from: int
) -> None:
    for group in ("fast", "slow"):
        client.xgroup_create("s", group, id="0", mkstream=True)
    for number in range(1000):
        client.xadd("s", {"n": number})
    read(client, "fast", 1000, slice(None))
    ids = read(client, "slow", 550, acknowledged)
    removed = trim(client, "s")
    left = [entry for entry, _ in cast("Any", client.xrange("s"))]
    assert len(left) == 1000 - removed
    assert needed_from - 100 < removed <= needed_from, "all before it but the rest of its node"
    assert ids[needed_from] in left
    assert trim(client, "s") == 0


def test_a_stream_without_groups_is_left_alone(client: redis.Redis, trim: Callable[[redis.Redis, str], int]) -> None:
    for number in range(300):
        client.xadd("s", {"n": number})
    assert trim(client, "s") == 0
    assert client.xlen("s") == 300
