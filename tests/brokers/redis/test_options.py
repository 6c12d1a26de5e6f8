"""The URL of a Redis publisher: what is refused, and that its secret stays hidden."""

from __future__ import annotations

import pytest

from relay.brokers.redis.publisher import RedisPublisher
from relay.core.errors import ConfigError
from tests.support.options import redis_options


@pytest.mark.parametrize("url", ["", "http://a", "redis://a?bogus=1", "redis://a?socket_timeout=abc", "a:6379"])
async def test_a_wrong_url_is_refused_at_open(url: str) -> None:
    with pytest.raises(ConfigError, match="PUBLISHER_URL"):
        await RedisPublisher(redis_options(url)).open()


@pytest.mark.parametrize("url", ["redis://u:hunter2@a:1/2", "rediss://:hunter2@a?ssl_cert_reqs=none"])
async def test_a_good_url_is_taken_and_its_secret_not_shown(url: str) -> None:
    options = redis_options(url)
    await RedisPublisher(options).open()
    assert "hunter2" not in repr(options)
