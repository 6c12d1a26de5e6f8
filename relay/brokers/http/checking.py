"""The hosts of all endpoints and the event types that none takes: for ``relay-cli check``, not for publishing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from relay.brokers.http.connecting import check
from relay.brokers.http.endpoints import EndpointTable, read_table
from relay.brokers.http.options import ClientTls, HttpOptions
from relay.brokers.http.wire import Origin
from relay.core.errors import BrokerUnreachable

_AT_A_TIME = 16  # hosts


async def check_hosts(options: HttpOptions, timeout: float) -> Mapping[str, str | None]:
    """Connect to each host once; why it does not answer, or None. Raises ConfigError."""
    table, context = read_table(options), ClientTls(options).context()
    turns = asyncio.Semaphore(_AT_A_TIME)

    async def reason(origin: Origin) -> str | None:
        async with turns:
            try:
                tls = context if origin.scheme == "https" else None
                await check(origin, tls, timeout, allow_private=options.allow_private)
            except BrokerUnreachable as error:
                return str(error)
            return None

    reasons = await asyncio.gather(*map(reason, table.origins))
    return dict(zip(map(str, table.origins), reasons, strict=True))


def without_endpoint(options: HttpOptions, event_types: Sequence[str]) -> list[str]:
    """The event types that no endpoint takes. Raises ConfigError."""
    table: EndpointTable = read_table(options)
    return [name for name in event_types if table.match(name) is None]
