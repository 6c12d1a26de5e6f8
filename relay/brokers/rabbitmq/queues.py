"""The exchange and the queues that events go to: for ``relay-cli check``, not for publishing.

Asking whether a queue or an exchange exists needs no right but the login.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pamqp import commands
from pamqp.base import Frame

from relay.brokers.rabbitmq.connection import RabbitConnection, ServerClosed
from relay.brokers.rabbitmq.frames import CHANNEL
from relay.brokers.rabbitmq.options import RabbitOptions, read_target
from relay.core.errors import BrokerUnreachable

_NOT_FOUND = 404


async def has_exchange(options: RabbitOptions) -> bool:
    """Whether the exchange of the options exists. Raises BrokerUnreachable, ConfigError."""
    async with _connection(options) as connection:
        question = commands.Exchange.Declare(exchange=options.exchange, passive=True)
        return await _exists(connection, question, commands.Exchange.DeclareOk)


async def missing_queues(options: RabbitOptions, names: Sequence[str]) -> list[str]:
    """The queues among ``names`` that do not exist. Raises BrokerUnreachable, ConfigError."""
    async with _connection(options) as connection:
        missing = []
        for name in names:
            question = commands.Queue.Declare(queue=name, passive=True)
            if not await _exists(connection, question, commands.Queue.DeclareOk):
                missing.append(name)
        return missing


@asynccontextmanager
async def _connection(options: RabbitOptions) -> AsyncIterator[RabbitConnection]:
    target = read_target(options)
    connection = await RabbitConnection.connect(target, options.connection_timeout)
    try:
        async with asyncio.timeout(options.connection_timeout):
            yield connection
            await connection.close()
    except (ServerClosed, TimeoutError) as error:
        reason = str(error) or f"no answer within {options.connection_timeout:g} s"
        raise BrokerUnreachable(f"{target}: {reason}") from None
    finally:
        connection.cut()


async def _exists(connection: RabbitConnection, question: Frame, answer: type[Frame]) -> bool:
    """Ask on a channel of its own: the server closes it to say no."""
    await connection.ask(commands.Channel.Open(), commands.Channel.OpenOk, CHANNEL)
    try:
        await connection.ask(question, answer, CHANNEL)
    except ServerClosed as error:
        if error.code != _NOT_FOUND or connection.lost is not None:
            raise
        return False
    await connection.ask(commands.Channel.Close(200, "done", 0, 0), commands.Channel.CloseOk, CHANNEL)
    return True
