"""The ground itself: the Valkey that other tests stand on."""

from __future__ import annotations

import uuid

import pytest
import redis

from tests.support.servers.valkey import ValkeyServer

pytestmark = pytest.mark.redis


def test_a_stream_is_written_and_read(redis_url: str) -> None:
    name = uuid.uuid4().hex
    with redis.Redis.from_url(redis_url) as client:
        client.xadd(name, {"payload": b"\x00\xff"})
        assert [fields for _, fields in client.xrange(name)] == [{b"payload": b"\x00\xff"}]
        client.delete(name)


def test_a_stream_outlives_a_restart_and_the_port_stays(own_redis: ValkeyServer) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.xadd("kept", {"payload": "1"})
    before = own_redis.url
    own_redis.stop()
    own_redis.start()
    assert own_redis.url == before
    with redis.Redis.from_url(own_redis.url) as client:
        assert client.xlen("kept") == 1


def test_a_password_is_asked_for() -> None:
    with ValkeyServer(settings={"requirepass": "secret"}) as server:
        with redis.Redis(port=server.port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
