"""A client for tests that makes queues, exchanges and bindings, and reads what a queue holds; by the library pika.

Another library than the relay's own code, so that a mistake there is not made twice. Its calls block, briefly.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import pika

from tests.support.waiting import patience


class RabbitMessage(NamedTuple):
    """A message of a queue."""

    message_id: str
    body: bytes
    headers: dict[str, str]
    content_type: str | None
    delivery_mode: int | None


class RabbitAdmin:
    """A connection and its channel, until ``close``."""

    def __init__(self, url: str) -> None:
        default = "%2F" if url.endswith("/") else ""
        self._connection = pika.BlockingConnection(pika.URLParameters(url + default))
        self.channel = self._connection.channel()
        """The library's channel."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def declare(self, queue: str, arguments: dict[str, Any] | None = None) -> None:
        """Make a durable queue."""
        self.channel.queue_declare(queue, durable=True, arguments=arguments or {})

    def delete(self, queue: str) -> None:
        """Delete it, also one that is gone."""
        self.channel.queue_delete(queue)

    def count(self, queue: str) -> int:
        """How many messages the queue holds that are ready."""
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def drain(self, queue: str) -> Iterator[str]:
        """Take everything out of a queue, quickly; yields the ids."""
        missing = self.count(queue)
        if not missing:
            return
        self.channel.basic_qos(prefetch_count=1000)
        for method, properties, _ in self.channel.consume(queue, inactivity_timeout=patience()):
            assert method is not None, f"{missing} messages of {queue} did not come"
            yield properties.message_id
            missing -= 1
            if missing % 500 == 0:
                self.channel.basic_ack(method.delivery_tag, multiple=True)
            if not missing:
                break
        self.channel.cancel()

    def read(self, queue: str, count: int) -> list[RabbitMessage]:
        """Take the first ``count`` messages out of a queue; fails where it holds fewer."""
        messages = []
        for at in range(count):
            method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            assert method is not None, f"{queue} held {at} of {count} messages"
            headers = properties.headers or {}
            headers.pop("x-delivery-count", None)  # a quorum queue's own
            messages.append(
                RabbitMessage(
                    properties.message_id, body, dict(headers), properties.content_type, properties.delivery_mode
                )
            )
        return messages
