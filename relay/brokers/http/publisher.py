"""Events to HTTP endpoints: one signed POST each, acknowledged by a status from 200 to 299.

Each host has connections, and events that wait for one, of its own (``relay.brokers.http.host``), so a host that is
down or hangs holds back only its own events. With several hosts those events are ``Away``; with one host they are
``Unreachable``, and the engine stops claiming until a probe gets through.

A probe connects, with the TLS handshake, and sends no request: a request would be an event that never happened. With
several hosts one that answers is enough.

``publish`` takes every event at once and never waits: what is in flight is bounded by MAX_IN_FLIGHT and BATCH_BYTES,
and an event that waits here for its slow host must not hold up the next one, which goes to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from relay.brokers.http.endpoints import EndpointTable
from relay.brokers.http.endpoints_file import read_table
from relay.brokers.http.host import Host
from relay.brokers.http.options import ClientTls, HttpOptions
from relay.brokers.http.origin import Origin
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink, Transient
from relay.core.ports import SingleDestination

_SLICE: Final = 100  # events taken before other work of the event loop gets its turn
_NO_ENDPOINT: Final = "no pattern of HTTP_ENDPOINTS_FILE matches its type, and PUBLISHER_URL is not set"


class HttpPublisher(SingleDestination):
    """See the module's text."""

    name = "http"
    keeps_runs = False

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._tls = ClientTls(options)
        self._table: EndpointTable
        self._hosts: dict[Origin, Host] = {}
        self._answering: Origin | None = None
        """The host that answered the last probe."""

    async def open(self) -> None:
        """Read table, secrets and certificates. Raises ConfigError; does not connect."""
        self._table = await asyncio.to_thread(read_table, self._options)
        await asyncio.to_thread(self._tls.context)
        origins = self._table.origins
        sole = len(origins) == 1
        self._hosts = {origin: Host(origin, self._options, self._tls, sole=sole) for origin in origins}

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Take every event. One that no endpoint takes is transient: an operator can add one."""
        for start in range(0, len(events), _SLICE):
            if start:
                await asyncio.sleep(0)
            touched: dict[Origin, Host] = {}
            for event in events[start : start + _SLICE]:
                endpoint = self._table.match(event.event_type)
                if endpoint is None:
                    sink([(event, Transient("NO_ENDPOINT", _NO_ENDPOINT))])
                    continue
                host = touched[endpoint.origin] = self._hosts[endpoint.origin]
                host.add((event, sink), endpoint)
            for host in touched.values():
                host.pump()

    async def probe(self, timeout: float) -> None:
        """Connect to the host that answered last, then to all others at once. Raises BrokerUnreachable."""
        first = self._answering or next(iter(self._hosts))
        others = [origin for origin in self._hosts if origin != first]
        try:
            await self._hosts[first].check(timeout / 2 if others else timeout)
            self._answering = first
        except BrokerUnreachable as error:
            self._answering = await self._first_of(others, timeout / 2)
            if self._answering is None:
                reason = f"none of the {len(self._hosts)} hosts answers: {error}" if others else str(error)
                raise BrokerUnreachable(reason) from None

    async def _first_of(self, origins: Sequence[Origin], timeout: float) -> Origin | None:
        """The first that answers; None when none does."""
        checks = {asyncio.create_task(self._hosts[origin].check(timeout)): origin for origin in origins}
        waiting = set(checks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for check in done:
                    if check.exception() is None:
                        return checks[check]
        finally:
            for check in waiting:
                check.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return None

    async def abandon(self, reason: str) -> None:
        """Cut all connections and what is buffered for them."""
        await asyncio.gather(*(host.abandon(reason) for host in self._hosts.values()))

    async def close(self) -> None:
        """Abandon what is left."""
        await self.abandon("the publisher was closed")

    def twin(self) -> HttpPublisher:
        """A publisher with connections of its own."""
        return HttpPublisher(self._options)
