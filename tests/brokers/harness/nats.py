"""A real nats-server of the suite's own, which may be paused and restarted."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import unquote

import nats

from relay.brokers.nats.publisher import NatsPublisher
from tests.brokers.harness.base import Features, ServerHarness, StoredMessage
from tests.support.fixtures.nats import Stream, read_stream
from tests.support.options import nats_options
from tests.support.servers.nats import NatsServer


class NatsHarness(ServerHarness):
    """One stream a destination, on disk."""

    features = Features(
        receipts=True,
        hangs=True,
        stops=True,
        missing_destination="NO_STREAM",
        invalid_names=("", ".", "a..b", ".a", "a.", "a b", "a\tb", "a\nb", "a.*", ">", "a.>", "$JS.API.INFO", "$SYS.x"),
        too_large=2_000_000,
    )

    def __init__(self, server: NatsServer) -> None:
        super().__init__(server)
        self._server = server

    def publisher(self, **options: Any) -> NatsPublisher:
        return NatsPublisher(nats_options(**({"url": self.url} | options)))

    async def destination(self) -> str:
        name = f"conformance{uuid.uuid4().hex[:12]}"
        client = await nats.connect(self._server.url)
        await client.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
        await client.close()
        return f"{name}.event"

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        name = destination.partition(".")[0]
        client = await nats.connect(self._server.url)
        messages = await read_stream(client.jetstream(), Stream(name, name), count, 30.0)
        await client.close()
        return [_message(message) for message in messages]


def _message(message: Any) -> StoredMessage:
    headers = dict(message.headers)
    key = headers.pop("X-Partition-Key", None)
    return StoredMessage(
        headers.pop("Nats-Msg-Id"),
        None if key is None else unquote(key),
        message.data,
        [(unquote(name), unquote(value)) for name, value in headers.items()],
    )
