"""The hosts of all endpoints and the event types that none takes: for ``relay-cli check``, not for publishing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from relay.brokers.findings import all_exist
from relay.brokers.http.connecting import check as connect
from relay.brokers.http.endpoints import EndpointTable
from relay.brokers.http.endpoints_file import read_table
from relay.brokers.http.options import ClientTls, HttpOptions
from relay.brokers.http.origin import Origin
from relay.brokers.kinds import CheckContext
from relay.core.errors import BrokerUnreachable
from relay.core.finding import Finding, Level

_AT_A_TIME = 16  # hosts


async def check(options: HttpOptions, names: Sequence[str] | None, context: CheckContext) -> list[Finding]:
    """Connect to each host, and look for an endpoint of each event type. Raises ConfigError."""
    advice = "check the URL, the name, the network and HTTP_TLS_*; its events wait until it answers"
    findings = [
        Finding(Level.OK, "broker", f"{host}: connected; no request was sent")
        if reason is None
        else Finding(Level.ERROR, "broker", reason, advice)
        for host, reason in (await check_hosts(options, context.timeout)).items()
    ]
    if names is None:
        return findings
    advice = "add a pattern to HTTP_ENDPOINTS_FILE, or set PUBLISHER_URL; until then its events become dead letters"
    missing = [
        Finding(Level.ERROR, "endpoints", f"no endpoint takes the event type {name!r}", advice)
        for name in without_endpoint(options, names)
    ]
    return findings + (missing or [all_exist("endpoints", "URL", names, context.sample)])


async def check_hosts(options: HttpOptions, timeout: float) -> Mapping[str, str | None]:
    """Connect to each host once; why it does not answer, or None. Raises ConfigError."""
    table, context = read_table(options), ClientTls(options).context()
    turns = asyncio.Semaphore(_AT_A_TIME)

    async def reason(origin: Origin) -> str | None:
        async with turns:
            try:
                tls = context if origin.scheme == "https" else None
                await connect(origin, tls, timeout, allow_private=options.allow_private)
            except BrokerUnreachable as error:
                return str(error)
            return None

    reasons = await asyncio.gather(*map(reason, table.origins))
    return dict(zip(map(str, table.origins), reasons, strict=True))


def without_endpoint(options: HttpOptions, event_types: Sequence[str]) -> list[str]:
    """The event types that no endpoint takes. Raises ConfigError."""
    table: EndpointTable = read_table(options)
    return [name for name in event_types if table.match(name) is None]
