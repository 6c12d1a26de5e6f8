"""The exchange and the queues that events go to: for ``relay-cli check``, not for publishing.

Asking whether a queue or an exchange exists needs no right but the login.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from pamqp import commands
from pamqp.base import Frame

from relay.brokers.findings import all_exist
from relay.brokers.kinds import CheckContext
from relay.brokers.login import present
from relay.brokers.rabbitmq.frames import CHANNEL
from relay.brokers.rabbitmq.options import RabbitOptions, read_target
from relay.brokers.rabbitmq.wire import AmqpWire, ServerClosed
from relay.core.durations import in_words
from relay.core.errors import BrokerUnreachable
from relay.core.finding import Finding, Level

_NOT_FOUND = 404
_UNTIL_THEN: Final = "until then its events are retried and become dead letters"


async def check(options: RabbitOptions, names: Sequence[str] | None, context: CheckContext) -> list[Finding]:
    """Look for the exchange, or without one for the queue of each name. Raises BrokerUnreachable, ConfigError."""
    if names is None:
        return []
    if options.exchange:
        return [await _exchange_finding(options)]
    advice = f"declare it, durable and of type quorum; {_UNTIL_THEN}"
    missing = await missing_queues(options, names)
    findings = [Finding(Level.ERROR, "queues", f"queue {name!r} does not exist", advice) for name in missing]
    return findings or [all_exist("queues", "queue", names, context.sample)]


async def _exchange_finding(options: RabbitOptions) -> Finding:
    exchange = f"exchange {options.exchange!r}"
    if not await has_exchange(options):
        advice = f"create it, or correct RABBITMQ_EXCHANGE; {_UNTIL_THEN}"
        return Finding(Level.ERROR, "exchange", f"{exchange} does not exist", advice)
    if options.mandatory:
        return Finding(Level.OK, "exchange", f"{exchange} exists; its bindings were not checked")
    lost = f"{exchange} exists; with RABBITMQ_MANDATORY=false what none of its bindings takes is DELIVERED and lost"
    advice = "unset RABBITMQ_MANDATORY, unless the exchange keeps messages itself, as x-delayed-message does"
    return Finding(Level.WARNING, "exchange", lost, advice)


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
async def _connection(options: RabbitOptions) -> AsyncIterator[AmqpWire]:
    target = read_target(await present(options))
    connection = await AmqpWire.connect(target, options.connection_timeout)
    try:
        async with asyncio.timeout(options.connection_timeout):
            yield connection
            await connection.close()
    except (ServerClosed, TimeoutError) as error:
        reason = str(error) or f"no answer within {in_words(options.connection_timeout)}"
        raise BrokerUnreachable(f"{target}: {reason}") from None
    finally:
        connection.cut()


async def _exists(connection: AmqpWire, question: Frame, answer: type[Frame]) -> bool:
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
