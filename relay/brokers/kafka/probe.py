"""The probe's own connection to Kafka; used by the Kafka publisher only.

A broker answers the requests of one connection one after the other. On the producer's connection a question would wait
behind each ``acks=all`` request that waits for a slow replica: slow acknowledgements would look like an outage. So the
probe has a client of its own, which produces nothing. It stays connected between two probes, for a login by SCRAM or
TLS costs the broker more than the question, and is replaced after a probe that got no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Producer

_TOPIC = "!"
"""A name that no topic can have: one small reply, and nothing is created where topics are created automatically."""


class KafkaProbe:
    """A client that asks for metadata. Used in the event loop's thread."""

    def __init__(self, config: dict[str, Any], on_error: Callable[[KafkaError], None]) -> None:
        """``on_error`` takes what goes wrong with the connection, within ``serve``."""
        # Not idempotent: such a producer asks the cluster for an id, and asks again.
        self._clients = [Producer(config | {"enable.idempotence": False, "error_cb": on_error})]

    async def ask(self, timeout: float) -> None:
        """Ask any broker; nothing is answered from a cache. Raises KafkaException or TimeoutError."""
        [client] = self._clients
        await asyncio.wait_for(asyncio.to_thread(client.list_topics, _TOPIC, timeout), timeout + 0.1)

    def log_in(self, user: str, password: str) -> None:
        """The login of every connection from now on."""
        for client in self._clients:
            client.set_sasl_credentials(user, password)

    def serve(self) -> None:
        """Pass on the errors of the connection."""
        for client in self._clients:
            client.poll(0)

    async def close(self) -> None:
        """Destroy the client, in a thread since that joins its threads."""
        clients, self._clients = self._clients, []
        await asyncio.to_thread(clients.clear)
