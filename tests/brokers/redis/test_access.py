"""Every way to log in to Redis, each with a good and a bad secret: which of them connects, and what is reported."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from relay.brokers.redis.publisher import RedisPublisher
from relay.core.errors import BrokerRefused, BrokerUnreachable
from relay.core.outcome import Acknowledged, Transient, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.documents import blocks
from tests.support.options import redis_options
from tests.support.servers.identities import Identities
from tests.support.servers.redis_secured import SecuredRedis
from tests.support.waiting import eventually

pytestmark = pytest.mark.redis

DEFAULT, ACL, WRONG = "the/default's", "pa:ss/w@rd", "wr0ng:secret/of ours"
USERS = [f"user default on >{DEFAULT} ~* +@all", f"user relay on >{ACL} ~* +xadd +ping"]
OPEN = ["user default on nopass ~* +@all"]

REASONS = {
    "password": "invalid username-password pair",
    "ACL user": "invalid username-password pair",
    "TLS": "(?i)certificate",
    "mutual TLS": "(?i)certificate|unknown ca|connection",
    "no certificate": "(?i)certificate|connection",
}


class Access:
    """Two servers: one with users, one that asks for certificates; and an authority that neither knows."""

    def __init__(self, folder: Path) -> None:
        self.ours, self.strangers = Identities(folder / "ours"), Identities(folder / "strangers")
        self.users = SecuredRedis(self.ours, USERS)
        self.certified = SecuredRedis(self.ours, OPEN, certificates=True)

    def url(self, way: str, right: bool) -> str:
        ours, theirs = f"ssl_ca_certs={self.ours.ca_file}", f"ssl_ca_certs={self.strangers.ca_file}"
        login = f"relay:{quote(ACL, safe='')}@"
        match way:
            case "password":
                login = f":{quote(DEFAULT if right else WRONG, safe='')}@"
                return f"{self._with(self.users, login)}?{ours}"
            case "ACL user":
                login = f"relay:{quote(ACL if right else WRONG, safe='')}@"
                return f"{self._with(self.users, login)}?{ours}"
            case "TLS":
                return f"{self._with(self.users, login)}?{ours if right else theirs}"
            case _:
                pair = (self.ours if right else self.strangers).issue("client", "relay.test")
                files = f"&ssl_certfile={pair.certificate}&ssl_keyfile={pair.key}"
                return f"{self.certified.url}?{ours}{files if right or way == 'mutual TLS' else ''}"

    @staticmethod
    def _with(server: SecuredRedis, login: str) -> str:
        return server.url.replace("rediss://", f"rediss://{login}")


def descriptors() -> int:
    """How many files and sockets this process has open.

    ``/dev/null`` does not count: libuv opens it with a loop's first stream and keeps it, as a descriptor to give up
    when there are no others left.
    """
    return sum(link != "/dev/null" for link in _targets())


def _targets() -> Iterator[str]:
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor that lists the folder
            yield str(path.readlink())


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    access = Access(tmp_path_factory.mktemp("access"))
    with access.users, access.certified:
        yield access


@pytest.mark.parametrize(("way", "reason"), REASONS.items())
async def test_a_good_secret_connects_and_a_bad_one_is_reported_without_it(
    access: Access, way: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    before = descriptors()
    publisher, sink, events = RedisPublisher(redis_options(access.url(way, True))), Collector(), [make_event("letters")]
    await publisher.open()
    await publisher.publish(events, sink)
    assert await sink.outcomes(events) == [Acknowledged()]
    await publisher.close()

    refused, sink = RedisPublisher(redis_options(access.url(way, False))), Collector()
    await refused.open()
    # A certificate of ours that the server does not take may show as nothing but a lost connection.
    kind = BrokerUnreachable if "connection" in reason else BrokerRefused
    with pytest.raises(kind, match=reason) as caught:
        await refused.probe(5.0)
    await refused.publish(events, sink)
    [outcome] = await sink.outcomes(events)
    assert isinstance(outcome, Unreachable)
    for secret in (WRONG, quote(WRONG, safe=""), ACL, quote(ACL, safe=""), "PRIVATE KEY"):
        assert secret not in f"{caught.value} {outcome} {caplog.text}"
    await refused.close()
    await eventually(lambda: descriptors() <= before)


async def test_the_least_rights_of_the_page_are_enough_and_no_more(tmp_path: Path) -> None:
    """A cluster's commands and those of replicas are not tried here."""
    [block] = [one for one in blocks("docs/operate/trust.md") if one.language == "redis"]
    with SecuredRedis(Identities(tmp_path), [OPEN[0], *block.text.splitlines()]) as server:
        ca_file = server._identities.ca_file
        url = f"{server.url.replace('rediss://', 'rediss://relay:secret@')}?ssl_ca_certs={ca_file}"
        publisher, sink = RedisPublisher(redis_options(url)), Collector()
        events = [make_event("orders.placed"), make_event("letters")]
        await publisher.open()
        await publisher.probe(10.0)
        await publisher.publish(events, sink)
        placed, refused = await sink.outcomes(events)
        await publisher.close()
    assert placed == Acknowledged()
    assert isinstance(refused, Transient)
    assert refused.code == "NOPERM"
