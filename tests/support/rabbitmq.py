"""A client for tests that makes queues, exchanges and bindings, and reads what a queue holds; by the library aiormq.

Another library than the relay's own code, so that a mistake there is not made twice.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple, Self

import aiormq
from aiormq.abc import AbstractChannel, AbstractConnection

from tests.support.waiting import patience


class RabbitMessage(NamedTuple):
    """A message of a queue."""

    message_id: str
    body: bytes
    headers: dict[str, str]
    content_type: str | None
    delivery_mode: int | None
    redelivered: bool


class RabbitAdmin:
    """A connection and its channel, within ``async with``."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None

    async def __aenter__(self) -> Self:
        self._connection = await aiormq.connect(self._url)
        self._channel = await self._connection.channel(publisher_confirms=False)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: Any, tb: TracebackType | None) -> None:
        if self._connection is not None:
            await self._connection.close()

    @property
    def channel(self) -> AbstractChannel:
        """The library's channel."""
        assert self._channel is not None
        return self._channel

    async def declare(self, queue: str, arguments: dict[str, Any] | None = None) -> None:
        """Make a durable queue."""
        await self.channel.queue_declare(queue, durable=True, arguments=arguments or {})

    async def delete(self, queue: str) -> None:
        """Delete it, also one that is gone."""
        await self.channel.queue_delete(queue)

    async def exchange(self, name: str, kind: str = "topic") -> None:
        """Make a durable exchange."""
        await self.channel.exchange_declare(name, exchange_type=kind, durable=True)

    async def bind(self, queue: str, exchange: str, key: str) -> None:
        """Route a key of the exchange to the queue."""
        await self.channel.queue_bind(queue, exchange, key)

    async def count(self, queue: str) -> int:
        """How many messages the queue holds that are ready."""
        declared = await self.channel.queue_declare(queue, passive=True)
        return declared.message_count or 0

    async def read(self, queue: str, count: int | None = None) -> list[RabbitMessage]:
        """Take the first ``count`` messages out of a queue, or all; fails where it holds fewer."""
        messages: list[RabbitMessage] = []
        while count is None or len(messages) < count:
            got = await self.channel.basic_get(queue, no_ack=True, timeout=patience())
            if got.delivery.NAME == "Basic.GetEmpty":
                assert count is None, f"{queue} held {len(messages)} of {count} messages"
                break
            properties = got.header.properties
            messages.append(
                RabbitMessage(
                    properties.message_id or "",
                    got.body,
                    {name: _text(value) for name, value in (properties.headers or {}).items()},
                    properties.content_type,
                    properties.delivery_mode,
                    bool(got.delivery.redelivered),
                )
            )
        return messages


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
