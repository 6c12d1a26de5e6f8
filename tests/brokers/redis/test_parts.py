"""Redis without a server: the command, the error table, the URL."""

from __future__ import annotations

import pytest
from redis import exceptions

from relay.brokers.redis.errors import TABLE, classify
from relay.brokers.redis.options import RedisOptions
from relay.brokers.redis.publisher import RedisPublisher
from relay.brokers.redis.session import xadd
from relay.core.errors import ConfigError
from relay.core.outcome import Outcome, TimedOut, Transient, Unreachable
from tests.brokers.harness.base import make_event


def test_the_command_has_every_field() -> None:
    event = make_event("s", b"body", key="k", headers='{"a": "1", "n": 1.0}')
    fields = ["id", event.event_id, "payload", b"body", "partition_key", "k", "h:a", "1", "h:n", "1.0"]
    assert xadd(event) == ("XADD", "s", "*", *fields)


def test_a_null_key_is_no_field_and_an_empty_one_is() -> None:
    assert "partition_key" not in xadd(make_event("s"))
    assert xadd(make_event("s", key=""))[-2:] == ("partition_key", "")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (exceptions.OutOfMemoryError("used memory"), Transient("OOM", "used memory")),
        (exceptions.NoPermissionError("no"), Transient("NOPERM", "no")),
        (exceptions.ReadOnlyError("replica"), Transient("READONLY", "replica")),
        (exceptions.MovedError("1 127.0.0.1:7000"), Transient("MOVED", "1 127.0.0.1:7000")),
        (exceptions.ResponseError("WRONGTYPE Operation against"), Transient("WRONGTYPE", "Operation against")),
        (exceptions.ResponseError("NOREPLICAS Not enough"), Transient("NOREPLICAS", "Not enough")),
        (exceptions.ResponseError("MISCONF Errors writing"), Transient("MISCONF", "Errors writing")),
        (exceptions.ResponseError("something new"), Transient("ResponseError", "something new")),
        (exceptions.TimeoutError("slow"), TimedOut("TIMEOUT", "slow")),
        (exceptions.ConnectionError("gone"), Unreachable("CONNECTION: gone")),
        (exceptions.BusyLoadingError("loading"), Unreachable("LOADING: loading")),
        (ConnectionResetError("reset"), Unreachable("CONNECTION: reset")),
    ],
)
def test_errors(error: Exception, outcome: Outcome) -> None:
    assert classify(error) == outcome


ERRORS = [kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_library_has_an_outcome(kind: type[Exception]) -> None:
    # Some of them want arguments, and print them.
    made = type(kind.__name__, (kind,), {"__init__": lambda _: None, "__str__": lambda _: "text"})()
    expected = next((TABLE[base][1] for base in kind.__mro__ if base in TABLE), Transient)
    assert type(classify(made)) is expected


@pytest.mark.parametrize("url", ["", "http://a", "redis://a?bogus=1", "redis://a?socket_timeout=abc", "a:6379"])
async def test_a_wrong_url_is_refused_at_open(url: str) -> None:
    with pytest.raises(ConfigError, match="PUBLISHER_URL"):
        await RedisPublisher(RedisOptions(url)).open()


@pytest.mark.parametrize("url", ["redis://u:hunter2@a:1/2", "rediss://:hunter2@a?ssl_cert_reqs=none"])
async def test_a_good_url_is_taken_and_its_secret_not_shown(url: str) -> None:
    options = RedisOptions(url)
    await RedisPublisher(options).open()
    assert "hunter2" not in repr(options)
