"""Reading the proofs that relays of the table have left in Kafka, whether or not this one leaves any.

A relay whose KAFKA_TRANSACTIONS is off finds expired leases of one that had it on. It settles what that one's proofs
show as committed (docs/design/exactly-once.md), where the broker has their topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from relay.brokers.kafka import proofs
from relay.brokers.kafka.errors import FATAL_UNTIL_GRANTED
from relay.brokers.kafka.options import KafkaOptions, connection_config, transaction_config
from relay.brokers.kafka.publisher import KafkaPublisher
from relay.brokers.kafka.transaction import begin_epoch
from relay.core.clock import steady_seconds
from relay.core.errors import BrokerUnreachable
from relay.core.proofs import LeasedRow, ProofReader, Proven
from relay.core.secrets import mask_values

_log = logging.getLogger(__name__)

PRODUCERS: Final = 4
"""Transactional ids of a relay. A finder ends these and no others, so it is never lowered."""
INIT_WITHIN: Final = 40.0  # seconds: longer than the coordinator takes to end what was left open
_LOOKED: Final = 1.0
"""Seconds for which a look for the topic holds: it is made before a first claim, and no lease is as short."""
_LOOK_WITHIN: Final = 3.0  # seconds: expired leases wait for it
_UNANSWERED: Final = 30.0  # seconds until the next look, where the broker did not answer


class Looker(NamedTuple):
    """A client that holds a connection."""

    admin: AdminClient

    def log_in(self, user: str, password: str) -> None:
        """The login of every connection from now on."""
        with suppress(KafkaException):
            self.admin.set_sasl_credentials(user, password)


class KafkaAsking(KafkaPublisher, ProofReader):
    """Publishes without transactions, and reads proofs where there are any."""

    def __init__(self, options: KafkaOptions) -> None:
        super().__init__(options)
        self._topic = proofs.topic_of(options.transactions_prefix)
        self._threads = ThreadPoolExecutor(3 * PRODUCERS, "kafka-transactions")
        self._kept = False
        self._look_at = float("-inf")
        self._unseen = False
        self._looker: Looker | None = None

    async def keeps_proofs(self) -> bool:
        """Whether the topic of proofs is there, as far as the broker has said.

        One that this login may not see is taken for none; so is that of a broker which has said nothing since the
        start: expired leases do not wait for it. BrokerUnreachable: it was there.
        """
        now = steady_seconds()
        if now < self._look_at:
            return self._kept
        admin, self._look_at = await self._admin_client(), now + _LOOKED
        try:
            self._kept = await self.in_thread(proofs.is_there, admin, self._topic, _LOOK_WITHIN)
        except KafkaException as error:
            unseen = error.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"
            if self._kept and not unseen:
                raise BrokerUnreachable(self._text(error, self._topic)) from None
            self._look_at = now + (_LOOKED if unseen else _UNANSWERED)
            self._kept = False
            if unseen and not self._unseen:
                message = "the topic of proofs %s cannot be seen: expired leases are reaped without asking: %s"
                _log.info(message, self._topic, error.args[0].str(), extra={"action": "proofs_unseen"})
            self._unseen |= unseen
        return self._kept

    async def end_holder(self, holder: str) -> None:
        """End the epochs of all of the holder's transactional ids."""
        configs = [self.config_of(holder, number) for number in range(PRODUCERS)]
        ended = (self.in_thread(_end_epoch, config) for config in configs)
        await self._asked(asyncio.gather(*ended), f"transactions of {holder}")

    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        """Read the topic of proofs up to its end."""
        connection = await self._connection()
        proven: Proven = await self._asked(self.in_thread(proofs.read, connection, self._topic, rows), self._topic)
        return proven

    async def close(self) -> None:
        await super().close()
        self._end()

    def _end(self) -> None:
        self._end_looker()
        self._threads.shutdown(wait=False)

    def _end_looker(self) -> None:
        looker, self._looker = [self._looker], None
        self.in_thread(looker.clear)  # which joins the client's threads

    async def _renew_clients(self) -> bool:
        renewed = await super()._renew_clients()
        if renewed:
            self._end_looker()
        return renewed

    def config_of(self, holder: str, number: int) -> dict[str, Any]:
        """The configuration of one transactional id."""
        config = self._config | transaction_config(self._options)
        name = f"{self._options.transactions_prefix}/{holder}/{number}"
        return config | {"transactional.id": name, "error_cb": self._note_error}

    def in_thread(self, work: Any, *arguments: Any) -> asyncio.Future[Any]:  # noqa: ANN401 - as the work returns
        """Run what blocks in a thread of its own."""
        return asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    async def _admin_client(self) -> AdminClient:
        """What looks for the topic, with one connection for all looks."""
        connection = await self._connection()
        if self._looker is None:
            self._looker = Looker(AdminClient(connection))
        self._looker.admin.poll(0)  # a token is renewed here
        return self._looker.admin

    def _clients(self) -> Iterable[Any]:
        return (*super()._clients(), self._looker)

    async def _connection(self) -> dict[str, Any]:
        await self._renew()
        return connection_config(self._config) | {"log_level": 0}  # its lines go straight to standard error

    async def _asked(self, answer: Any, what: str) -> Any:  # noqa: ANN401 - as the answer
        try:
            return await answer
        except KafkaException as error:
            raise BrokerUnreachable(self._text(error, what)) from None

    def _text(self, error: KafkaException, what: str) -> str:
        code = error.args[0].name()
        prefix = self._options.transactions_prefix
        advice = f"; grant WRITE and DESCRIBE on transactional ids that begin with {prefix}/"
        advice = advice if code in FATAL_UNTIL_GRANTED else ""
        return mask_values(f"{what}: {code}: {error.args[0].str()}{advice}", self._config)


def _end_epoch(config: dict[str, Any]) -> None:
    begin_epoch(config, INIT_WITHIN)
