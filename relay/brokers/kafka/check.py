"""The topics that events go to, and what transactions need: for ``relay-cli check``, not for publishing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from relay.brokers.findings import all_exist, without_refused
from relay.brokers.kafka.errors import invalid_topic
from relay.brokers.kafka.options import KafkaOptions, connection_config, producer_config
from relay.brokers.kafka.setup import examine
from relay.brokers.kinds import CheckContext
from relay.brokers.login import present
from relay.core.errors import BrokerUnreachable
from relay.core.finding import Finding, Level
from relay.core.secrets import mask_values

_ADVICE: Final = "create it or let this login see it, unless the brokers create topics automatically"


async def check(options: KafkaOptions, names: Sequence[str] | None, context: CheckContext) -> list[Finding]:
    """Look for the topic of each name, and for what transactions need. Raises BrokerUnreachable."""
    transactions = await examine(options) if options.transactions else []
    if names is None:
        return transactions
    names, refused = without_refused(names, partial(invalid_topic, allowed=options.allowed_types))
    topics = await read_topics(options)
    missing = [name for name in names if name not in topics]
    findings = [Finding(Level.WARNING, "topics", f"topic {name!r} does not exist", _ADVICE) for name in missing]
    return transactions + refused + (findings or [all_exist("topics", "topic", names, context.sample)])


async def read_topics(options: KafkaOptions) -> frozenset[str]:
    """Return every topic that this login may see; creates none. Raises BrokerUnreachable."""
    config = producer_config(await present(options))
    admin = AdminClient(connection_config(config))
    try:
        metadata = await asyncio.to_thread(admin.list_topics, timeout=options.read_timeout)
    except KafkaException as error:
        raise BrokerUnreachable(mask_values(f"Kafka: {error.args[0].str()}", config)) from None
    return frozenset(metadata.topics)
