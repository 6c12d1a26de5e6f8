"""Events to NATS JetStream: many publishes in flight, each acknowledged by its stream.

``Nats-Msg-Id`` is the event's id, and that of a copy for one of several destinations names the destination too.
JetStream drops repeats by it, in a whole stream; such a repeat counts as acknowledged. One
session is used at a time. It is opened on the first publish or probe, and again after it was lost or abandoned. An
event waits only for its own acknowledgement, and for at most the publish timeout.
"""

from __future__ import annotations

import asyncio

from relay.brokers.current_session import SessionPublisher
from relay.brokers.login import present, renewed
from relay.brokers.nats.options import NatsOptions, connect_arguments, server_names
from relay.brokers.nats.session import NatsSession
from relay.core.durations import in_words
from relay.core.errors import BrokerUnreachable, ConfigError


class NatsPublisher(SessionPublisher[NatsOptions, NatsSession]):
    """Publishes over one session at a time; see the module's text."""

    name = "nats"

    async def open(self) -> None:
        await asyncio.to_thread(connect_arguments, self._options)

    async def probe(self, timeout: float) -> None:
        """A round trip to the server, over the connection in use or a new one."""
        try:
            async with asyncio.timeout(timeout):
                session = await self._current.get()
        except TimeoutError:
            names = server_names(self._options)
            raise BrokerUnreachable(f"{names}: no NATS server has answered within {in_words(timeout)}") from None
        await session.ask(timeout)

    async def abandon(self, reason: str) -> None:
        if (session := await self._current.give_up(reason)) is not None:
            await session.end(reason)

    async def _connect(self) -> NatsSession:
        try:  # read for every session: mounted secrets and certificates are replaced while the relay runs
            arguments = await asyncio.to_thread(connect_arguments, await present(self._options))
        except ConfigError as error:
            raise BrokerUnreachable(str(error)) from None
        with renewed(self._options):
            return await NatsSession.connect(self._options, arguments)
