"""Events to RabbitMQ: persistent, mandatory messages, many of them unconfirmed, each with its own confirm.

A session is opened on the first publish, and again after it was lost or abandoned. An event waits only for its own
confirm, and for at most the publish timeout.

A probe uses a short connection of its own: a server that lacks memory or disk reads nothing more from a connection that
publishes, but answers another one. So being blocked is no outage, and a half-dead session cannot answer a probe. Where
a limit has room for the session's connection alone, a node that says so has answered.
"""

from __future__ import annotations

import asyncio

from relay.brokers.current_session import SessionPublisher
from relay.brokers.login import present, renewed
from relay.brokers.rabbitmq.options import RabbitOptions, RabbitTarget, read_target
from relay.brokers.rabbitmq.session import RabbitSession
from relay.brokers.rabbitmq.wire import AmqpWire, TooManyConnections
from relay.core.durations import in_words
from relay.core.errors import BrokerUnreachable, ConfigError


class RabbitPublisher(SessionPublisher[RabbitOptions, RabbitSession]):
    """Publishes over one session at a time; see the module's text."""

    name = "rabbitmq"

    @property
    def blocked(self) -> str:
        """What the server says that it lacks."""
        session = self._current.in_use
        return "" if session is None else session.blocked

    async def open(self) -> None:
        await asyncio.to_thread(read_target, self._options)

    async def probe(self, timeout: float) -> None:
        """Log in on a connection of its own. Raises BrokerUnreachable."""
        target = await self._target()
        try:
            with renewed(self._options):
                connection = await AmqpWire.connect(target, timeout)
        except TooManyConnections:
            if self._current.in_use is None:
                raise
            return
        try:
            async with asyncio.timeout(timeout):
                await connection.close()
        except TimeoutError:
            raise BrokerUnreachable(f"{target}: no answer within {in_words(timeout)}") from None

    async def abandon(self, reason: str) -> None:
        if (session := await self._current.give_up(reason)) is not None:
            session.end(reason)

    async def _connect(self) -> RabbitSession:
        target = await self._target()
        with renewed(self._options):
            return await RabbitSession.connect(self._options, target)

    async def _target(self) -> RabbitTarget:
        try:  # read for every connection: mounted certificates are replaced while the relay runs
            return await asyncio.to_thread(read_target, await present(self._options))
        except ConfigError as error:
            raise BrokerUnreachable(str(error)) from None
