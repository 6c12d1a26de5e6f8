"""The direct path beside nats-py's public one: the same bytes, the same outcomes, and a fall-back to the public one.

Those with a server run with the lowest version of nats-py, too (``make lowest``).
"""

from __future__ import annotations

import asyncio
import json
import logging

import nats.aio.client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.transport import TcpTransport
from nats.protocol.parser import Parser

from relay.brokers.nats import client as client_module
from relay.brokers.nats.headers import message_headers
from relay.brokers.nats.publisher import NatsPublisher
from relay.brokers.nats.session import NatsSession
from relay.core.outcome import Acknowledged, ConnectionCut, Permanent, Transient
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.nats import MakeStream, read_stream
from tests.support.options import nats_options
from tests.support.servers.nats import NatsServer
from tests.support.waiting import patience


class OtherParser:
    """A parser without the parts that the relay uses."""

    def __init__(self, client: nats.aio.client.Client) -> None:
        self._inner = Parser(client)

    async def parse(self, data: bytes = b"") -> None:
        await self._inner.parse(data)

    def reset(self) -> None:
        self._inner.reset()


class OtherTransport:
    """A transport whose socket the relay cannot reach."""

    def __init__(self) -> None:
        self._inner = TcpTransport()  # type: ignore[no-untyped-call]

    def __getattr__(self, name: str) -> object:
        if name == "_io_writer":
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __bool__(self) -> bool:
        return bool(self._inner)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.none(),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4),
    st.binary(max_size=5),
)
def test_a_publish_command_is_to_the_byte_the_librarys_own(
    key: str | None, headers: dict[str, str], payload: bytes
) -> None:
    event = make_event("a.ü", payload, key=key, headers=json.dumps(headers))
    sent: list[bytes] = []

    async def take(command: bytes) -> None:
        sent.append(command)

    async def run() -> bytes:
        session = NatsSession(nats_options("nats://host"))
        session._prefix = "_INBOX.x."
        session._client._send_command = take  # type: ignore[method-assign, assignment]
        command = session._command(event)
        assert isinstance(command, bytes)
        reply = command.split(b" ")[2].decode()  # its number is drawn at random
        assert reply.startswith("_INBOX.x.")
        await session._client._send_publish(
            event.event_type, reply, event.payload, len(event.payload), message_headers(event)
        )
        return command

    command = asyncio.run(run())
    assert [command + event.payload + b"\r\n"] == sent


@pytest.mark.nats
async def test_this_version_of_the_library_is_used_directly(nats_url: str, caplog: pytest.LogCaptureFixture) -> None:
    publisher = NatsPublisher(nats_options(nats_url))
    await publisher.probe(patience(5))
    session = await publisher._current.get()
    assert session._client.direct
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    await publisher.close()


@pytest.mark.nats
@pytest.mark.parametrize(("name", "kind"), [("Parser", OtherParser), ("TcpTransport", OtherTransport)])
async def test_a_version_without_the_private_parts_is_used_by_its_public_methods(
    nats_url: str,
    stream: MakeStream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    kind: type,
) -> None:
    client_module._warn.cache_clear()
    monkeypatch.setattr(nats.aio.client, name, kind)
    target = await stream(max_msg_size=1000)
    for _ in range(2):  # the second connection warns no more
        publisher, sink = NatsPublisher(nats_options(nats_url, receipts=True)), Collector()
        events = [make_event(target.subject(), b"%d" % number) for number in range(250)]
        refused = [make_event("missing"), make_event("a b"), make_event(target.subject(), b"x" * 2000)]
        await publisher.publish([*refused, *events], sink)
        missing, invalid, large, *outcomes = await sink.outcomes([*refused, *events])
        assert not (await publisher._current.get())._client.direct
        assert isinstance(missing, Transient)
        assert isinstance(invalid, Permanent)
        assert isinstance(large, Permanent)
        assert all(isinstance(outcome, Acknowledged) and outcome.receipt for outcome in outcomes)
        await publisher.close()
    warnings = [record for record in caplog.records if getattr(record, "action", "") == "nats_slow_path"]
    assert len(warnings) == 1
    monkeypatch.undo()
    client = await nats.connect(nats_url)
    stored = await read_stream(client.jetstream(), target, 500)
    assert [message.data for message in stored] == [b"%d" % number for number in range(250)] * 2
    await client.close()


@pytest.mark.nats
async def test_a_cut_between_the_slices_of_an_offer_gives_no_verdict_to_what_was_not_acknowledged(
    own_nats: NatsServer,
) -> None:
    """What was written is cut off; what was not yet written is offered over the next connection."""
    client = await nats.connect(own_nats.url)
    await client.jetstream().add_stream(name="cut", subjects=["cut"])
    publisher, sink = NatsPublisher(nats_options(own_nats.url)), Collector()
    await publisher.probe(patience(5))
    session = await publisher._current.get()
    events = [make_event("cut", b"%d" % number) for number in range(1000)]
    publishing = asyncio.create_task(publisher.publish(events, sink))
    await asyncio.sleep(0)
    written = len(session._pending)
    assert 0 < written < len(events)
    session._client.cut()
    await publishing
    outcomes = await sink.outcomes(events)
    assert {type(outcome) for outcome in outcomes[:written]} <= {ConnectionCut, Acknowledged}
    assert isinstance(outcomes[written - 1], ConnectionCut)
    assert outcomes[written:] == [Acknowledged()] * (len(events) - written)
    assert (await publisher._current.get()) is not session
    await publisher.close()
    await client.close()
