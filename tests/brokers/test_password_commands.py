"""A command that prints the broker's password: one that was refused is followed by the next one, without a restart."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relay.brokers.nats.publisher import NatsPublisher
from relay.brokers.rabbitmq.publisher import RabbitPublisher
from relay.brokers.redis.publisher import RedisPublisher
from relay.core.errors import BrokerRefused, BrokerUnreachable
from relay.core.origins import LiveUrl, PasswordCommand, login_of
from relay.core.outcome import Acknowledged
from relay.core.ports import Publisher
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.rabbitmq import MakeQueue
from tests.support.options import nats_options, rabbit_options, redis_options
from tests.support.servers.nats import NatsServer
from tests.support.servers.valkey import ValkeyServer
from tests.support.waiting import patience

PASSWORD = "pa:ss/w@rd"


def printing(file: Path) -> PasswordCommand:
    return PasswordCommand(
        "THE_COMMAND", shlex.join([sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(file)])
    )


def live(url: str, file: Path) -> LiveUrl:
    return LiveUrl(url, printing(file))


@contextmanager
def nats(file: Path, login: str = "relay@", rule: str = f"user: relay, password: '{PASSWORD}'") -> Iterator[Publisher]:
    with NatsServer(config=f"authorization {{ {rule} }}") as server:
        url = server.url.replace("nats://", f"nats://{login}")
        yield NatsPublisher(nats_options(url, live=live(url, file)))


@contextmanager
def nats_token(file: Path) -> Iterator[Publisher]:
    with nats(file, "", f"token: '{PASSWORD}'") as publisher:
        yield publisher


@contextmanager
def redis(file: Path) -> Iterator[Publisher]:
    with ValkeyServer(settings={"requirepass": "of-valkey"}) as server:
        url = server.url.replace(":of-valkey@", "default@")
        yield RedisPublisher(redis_options(url, live=live(url, file)))


async def follow(publisher: Publisher, folder: Path, password: str, event_type: str = "") -> None:
    """Refuse a password, take the next one, and publish an event where there is a type of it."""
    file = folder / "token"
    await publisher.open()
    with pytest.raises(BrokerRefused) as refused:
        await publisher.probe(patience())
    assert "wr0ng" not in str(refused.value)
    file.write_text(f"{password}\n2099-01-01T00:00:00Z\n")
    await publisher.probe(patience())
    if event_type:
        sink, events = Collector(), [make_event(event_type)]
        await publisher.publish(events, sink)
        assert await sink.outcomes(events) == [Acknowledged()]
    file.unlink()  # the password is good for long, and is not asked for again
    await publisher.abandon("a new connection")
    await publisher.probe(patience())
    await publisher.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What the command prints: a password that is refused."""
    file = tmp_path / "token"
    file.write_text("wr0ng\n2099-01-01T00:00:00Z\n")
    return file


@pytest.mark.parametrize(
    ("broker", "password", "event_type"),
    [
        pytest.param(nats, PASSWORD, "", marks=pytest.mark.nats, id="nats"),
        pytest.param(nats_token, PASSWORD, "", marks=pytest.mark.nats, id="nats token"),
        pytest.param(redis, "of-valkey", "letters", marks=pytest.mark.redis, id="redis"),
    ],
)
async def test_a_refused_password_is_followed_by_the_next_one(
    broker: type[object], password: str, event_type: str, file: Path
) -> None:
    with broker(file) as publisher:  # type: ignore[call-arg,attr-defined]
        await follow(publisher, file.parent, password, event_type)


async def test_a_refused_password_of_rabbitmq_is_followed_by_the_next_one(
    rabbitmq_url: str, queue: MakeQueue, file: Path
) -> None:
    url = f"amqp://admin@{rabbitmq_url.rpartition('@')[2]}"
    await follow(RabbitPublisher(rabbit_options(url, live=live(url, file))), file.parent, "admin", queue())


@pytest.mark.nats
async def test_a_command_that_fails_is_why_the_broker_is_unreachable(tmp_path: Path) -> None:
    with nats(tmp_path / "missing") as publisher:
        await publisher.open()
        with pytest.raises(BrokerUnreachable, match="THE_COMMAND gives no password: it ended with exit code 1"):
            await publisher.probe(patience())
        await publisher.close()


@pytest.mark.parametrize(
    ("url", "now"),
    [
        ("nats://relay@h:1,h2:1", "nats://relay:a%3Ab@h:1,h2:1"),
        ("nats://h:1", "nats://:a%3Ab@h:1"),
        ("h:1,h2:1", ":a%3Ab@h:1,h2:1"),
        ("redis+sentinel://u@h:1/name?x=@", "redis+sentinel://u:a%3Ab@h:1/name?x=@"),
        ("amqp://u:own@h", "amqp://u:own@h"),
    ],
)
@pytest.mark.process
async def test_a_password_gets_into_the_login_of_a_url(url: str, now: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a:b\n")
    assert await live(url, tmp_path / "token").present() == now
    assert login_of(now)[1] in ("a:b", "own")
