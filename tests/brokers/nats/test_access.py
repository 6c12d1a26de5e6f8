"""Every way to log in to NATS, each with a good and a bad secret: which of them connects, and what is reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import nats
import pytest

from relay.brokers.nats.options import connect_arguments
from relay.brokers.nats.publisher import NatsPublisher
from relay.brokers.nats.streams import read_streams
from relay.core.errors import BrokerRefused, BrokerUnreachable, ConfigError
from relay.core.outcome import Acknowledged, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.documents import blocks
from tests.support.options import nats_options
from tests.support.servers.identities import Identities
from tests.support.servers.nats import NatsServer
from tests.support.servers.nats_keys import ACCOUNT, USER, Key, Operator

pytestmark = pytest.mark.nats

PASSWORD, TOKEN, WRONG = "pa:ss/w@rd", "the t/oken", "wr0ng:secret"


@dataclass(frozen=True, slots=True)
class Way:
    """One way in: the server's configuration, and the URL with a good and with a bad secret."""

    config: str
    url: Callable[[NatsServer, bool], str]
    secrets: tuple[str, ...]


def login(good: str, bad: str) -> Callable[[NatsServer, bool], str]:
    return lambda server, right: server.url.replace("nats://", f"nats://{good if right else bad}@")


def by_file(folder: Path, parameter: str, good: str, bad: str) -> Callable[[NatsServer, bool], str]:
    def url(server: NatsServer, right: bool) -> str:
        path = folder / ("good" if right else "bad")
        path.write_text(good if right else bad, encoding="utf-8")
        return f"{server.url}?{parameter}={path}"

    return url


def password(folder: Path) -> Way:
    user = login(f"relay:{quote(PASSWORD, safe='')}", f"relay:{quote(WRONG, safe='')}")
    return Way(f"authorization {{ user: relay, password: '{PASSWORD}' }}", user, (WRONG, quote(WRONG, safe="")))


def token(folder: Path) -> Way:
    return Way(f"authorization {{ token: '{TOKEN}' }}", login(quote(TOKEN, safe=""), quote(WRONG, safe="")), (WRONG,))


def nkey(folder: Path) -> Way:
    good, bad = Key(USER), Key(USER)
    url = by_file(folder, "nkey_seed", good.seed + "\n", bad.seed)
    return Way(f"authorization {{ users = [ {{ nkey: {good.public} }} ] }}", url, (bad.seed,))


def credentials(folder: Path) -> Way:
    operator, stranger = Operator(), Key(ACCOUNT)
    bad = operator.credentials(stranger)
    url = by_file(folder, "credentials", operator.credentials(), bad)
    return Way(operator.config(), url, (bad.splitlines()[1], bad.splitlines()[5]))


def tls(folder: Path) -> Way:
    ours, strangers = Identities(folder / "ours"), Identities(folder / "strangers")
    pair = ours.issue("server")
    config = f"tls {{ cert_file: '{pair.certificate}', key_file: '{pair.key}' }}"
    return Way(config, lambda s, right: f"{s.url}?tls_ca={(ours if right else strangers).ca_file}", ())


def mutual_tls(folder: Path) -> Way:
    ours, strangers = Identities(folder / "ours"), Identities(folder / "strangers")
    server = ours.issue("server")
    clients = {right: (ours if right else strangers).issue("client", "relay.test") for right in (True, False)}
    files = f"cert_file: '{server.certificate}', key_file: '{server.key}', ca_file: '{ours.ca_file}'"

    def url(server: NatsServer, right: bool) -> str:
        client = clients[right]
        return f"{server.url}?tls_ca={ours.ca_file}&tls_cert={client.certificate}&tls_key={client.key}"

    return Way(f"tls {{ {files}, verify: true }}", url, ("PRIVATE KEY",))


WAYS = {
    password: "(?i)authorization",
    token: "(?i)authorization",
    nkey: "(?i)authorization",
    credentials: "(?i)authorization",
    tls: "(?i)certificate",
    mutual_tls: "(?i)certificate|unknown ca|connection",
}


@pytest.fixture(params=WAYS, ids=lambda make: str(make.__name__))
def way(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Way, str]:
    return request.param(tmp_path), WAYS[request.param]


@pytest.fixture
def server(way: tuple[Way, str]) -> Iterator[NatsServer]:
    with NatsServer(config=way[0].config) as server:
        yield server


async def test_a_good_secret_connects_and_a_bad_one_is_reported_without_it(
    way: tuple[Way, str], server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (login, reason), sink, events = way, Collector(), [make_event("letters")]
    arguments = connect_arguments(nats_options(login.url(server, True)))
    admin = await nats.connect(**arguments)
    await admin.jetstream().add_stream(name="letters", subjects=["letters"])
    await admin.close()

    publisher = NatsPublisher(nats_options(login.url(server, True)))
    await publisher.open()
    await publisher.publish(events, sink)
    assert await sink.outcomes(events) == [Acknowledged()]
    await publisher.close()

    refused = NatsPublisher(nats_options(login.url(server, False)))
    await refused.open()
    # A certificate of ours that the server does not take may show as nothing but a lost connection.
    kind = BrokerUnreachable if "connection" in reason else BrokerRefused
    with pytest.raises(kind, match=reason) as caught:
        await refused.probe(5.0)
    sink = Collector()
    await refused.publish(events, sink)
    [outcome] = await sink.outcomes(events)
    assert isinstance(outcome, Unreachable)
    for secret in login.secrets:
        assert secret not in f"{caught.value} {outcome} {caplog.text}"
    await refused.close()


@pytest.mark.parametrize("how", ["scheme", "file"])
async def test_no_login_goes_to_a_server_without_tls_where_tls_is_demanded(tmp_path: Path, how: str) -> None:
    received = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "version": "2.11.0", "max_payload": 1048576, "auth_required": true}\r\n')
        while data := await reader.read(4096):
            received.extend(data)
            if b"PING" in data:
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        ca_file = Identities(tmp_path).ca_file
        url = {"scheme": f"tls://relay:hunter2@127.0.0.1:{port}"}.get(
            how, f"nats://relay:hunter2@127.0.0.1:{port}?tls_ca={ca_file}"
        )
        publisher = NatsPublisher(nats_options(url))
        await publisher.open()
        with pytest.raises(BrokerUnreachable, match="the server does not"):
            await publisher.probe(5.0)
        with pytest.raises(BrokerUnreachable, match="the server does not"):
            await read_streams(nats_options(url))
        await publisher.close()
    assert b"hunter2" not in received


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A seed as a mounted secret."""
    path = tmp_path / "mounted"
    path.write_text(Key(USER).seed, encoding="utf-8")
    return path


async def test_a_seed_that_is_replaced_is_used_for_the_next_connection(mounted: Path) -> None:
    """As mounted secrets are: the relay does not restart."""
    right = Key(USER)
    with NatsServer(config=f"authorization {{ users = [ {{ nkey: {right.public} }} ] }}") as server:
        publisher = NatsPublisher(nats_options(f"{server.url}?nkey_seed={mounted}"))
        await publisher.open()
        with pytest.raises(BrokerUnreachable, match=r"(?i)authorization"):
            await publisher.probe(5.0)
        await asyncio.to_thread(mounted.write_text, "half of a se")
        with pytest.raises(BrokerUnreachable, match="holds no NKey seed"):
            await publisher.probe(5.0)
        await asyncio.to_thread(mounted.write_text, right.seed)
        await publisher.probe(5.0)
        await publisher.close()


@pytest.mark.parametrize(
    ("parameter", "content", "words"),
    [
        ("nkey_seed", None, "cannot be read: No such file"),
        ("nkey_seed", "hunter2", "holds no NKey seed; one begins with SU"),
        ("credentials", "hunter2", "has no part NATS USER JWT"),
        ("credentials", "-----BEGIN NATS USER JWT-----\nhunter2\n------END NATS USER JWT------\n", "USER NKEY SEED"),
        ("credentials", b"hunter2\xff", "not UTF-8 text"),
    ],
)
async def test_an_invalid_file_stops_the_start(
    tmp_path: Path, parameter: str, content: str | bytes | None, words: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=words) as caught:
        await NatsPublisher(nats_options(f"nats://127.0.0.1:1?{parameter}={path}")).open()
    assert "hunter2" not in str(caught.value)


async def test_the_least_rights_of_the_page_are_enough_and_no_more() -> None:
    """An event for a subject of another team, and one that would acknowledge another's message."""
    [block] = [one for one in blocks("docs/operate/trust.md") if one.language == "text"]
    users = block.text.replace("users = [", 'users = [ { user: admin, password: "admin" }')
    with NatsServer(config=users) as server:
        admin = await nats.connect(server.url.replace("nats://", "nats://admin:admin@"))
        await admin.jetstream().add_stream(name="all", subjects=["orders.>", "letters"])
        await admin.close()
        options = nats_options(server.url.replace("nats://", "nats://relay:secret@"), allowed_types=("*", "_INBOX.*"))
        publisher, sink = NatsPublisher(options), Collector()
        events = [make_event("orders.placed"), make_event("letters"), make_event("_INBOX.theirs.1")]
        await publisher.open()
        await publisher.probe(10.0)
        await publisher.publish(events, sink)
        placed, *refused = await sink.outcomes(events)
        await publisher.close()
    assert placed == Acknowledged()
    assert [getattr(outcome, "code", "") for outcome in refused] == ["PERMISSIONS_VIOLATION"] * 2
