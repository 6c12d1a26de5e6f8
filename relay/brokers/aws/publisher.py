"""Events to SQS queues and SNS topics: batches of ten, many of them in flight, an outcome for each event.

A session is opened on the first publish, and again after it was abandoned or its credentials were refused. A probe uses
a client of its own and a new connection each time, so that a half-dead connection cannot answer it. Each queue and each
topic is a destination.
"""

from __future__ import annotations

import asyncio

from relay.brokers.aws.client import AwsClient, prepare
from relay.brokers.aws.names import destination_name
from relay.brokers.aws.options import AwsOptions, AwsTarget, read_target
from relay.brokers.aws.services import Service, service_of, unreachable
from relay.brokers.aws.session import FAILURES, AwsSession
from relay.brokers.current_session import SessionPublisher
from relay.core.durations import in_words
from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.outcome import Unreachable


class AwsPublisher(SessionPublisher[AwsOptions, AwsSession]):
    """Publishes over one session at a time; see the module's text."""

    def __init__(self, options: AwsOptions) -> None:
        super().__init__(options)
        self.name: str = options.kind
        self._asking: tuple[AwsClient, Service] | None = None
        """The probes' client."""
        self._making = asyncio.Lock()
        """Probes of several destinations at a time share the client."""

    async def open(self) -> None:
        """Check the configuration and load the description of the service. Raises ConfigError; does not connect."""
        target = await asyncio.to_thread(read_target, self._options)
        await asyncio.to_thread(prepare, self._options.kind, target)

    async def probe(self, timeout: float) -> None:
        """Make a signed request on a connection of its own. Raises BrokerUnreachable."""
        await self.probe_destination("", timeout)

    def destination_of(self, event: OutboxEvent) -> str:
        """The queue or topic; empty for an event whose type can name none."""
        return destination_name(event.event_type, self._options)

    async def probe_destination(self, destination: str, timeout: float) -> None:
        """As ``probe``, with a request to one queue or topic; that it is missing or forbidden is an answer."""
        target = await self._target()
        try:
            async with asyncio.timeout(timeout):
                client, service = await self._asked(target)
                await service.ask(client, destination)
        except TimeoutError:
            reason: str | None = f"no answer within {in_words(timeout)}"
        except FAILURES as error:
            reason = unreachable(error)
        else:
            return
        if reason is not None:
            await self._forget()
            raise BrokerUnreachable(f"{target}: {reason.removeprefix(f'{target}: ')}")

    def take_back(self, reason: str) -> None:
        """What is in no request yet is ``Withheld``."""
        if (session := self._current.in_use) is not None:
            session.take_back(reason)

    async def abandon(self, reason: str) -> None:
        if (session := await self._current.give_up(reason)) is not None:
            session.end(Unreachable(reason))
            await session.gone()

    async def close(self) -> None:
        await super().close()
        await self._forget()

    async def _forget(self) -> None:
        """The next probe has a new client, which reads the credentials again."""
        asking, self._asking = self._asking, None
        if asking is not None:
            await asking[0].close()

    async def _asked(self, target: AwsTarget) -> tuple[AwsClient, Service]:
        async with self._making:
            if self._asking is None:
                client = await AwsClient.connect(self._options.kind, self._options, target, reuse=False)
                self._asking = client, service_of(self._options, target)
            return self._asking

    async def _connect(self) -> AwsSession:
        target = await self._target()
        client = await AwsClient.connect(self._options.kind, self._options, target)
        return AwsSession(client, service_of(self._options, target), self._options)

    async def _target(self) -> AwsTarget:
        try:  # read for every connection: mounted certificates are replaced while the relay runs
            return await asyncio.to_thread(read_target, self._options)
        except ConfigError as error:
            raise BrokerUnreachable(str(error)) from None
