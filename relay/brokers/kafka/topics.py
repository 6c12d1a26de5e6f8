"""The topics of a Kafka cluster: for ``relay-cli check``, not for publishing."""

from __future__ import annotations

import asyncio
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from relay.brokers.kafka.options import KafkaOptions, producer_config
from relay.core.errors import BrokerUnreachable
from relay.core.secrets import mask_values

_CONNECTION: Final = ("bootstrap.", "client.", "security.", "sasl.", "ssl.", "enable.ssl", "socket.", "broker.")


async def read_topics(options: KafkaOptions) -> frozenset[str]:
    """Return every topic that this login may see; creates none. Raises BrokerUnreachable."""
    config = producer_config(options)
    admin = AdminClient({name: value for name, value in config.items() if name.startswith(_CONNECTION)})
    try:
        metadata = await asyncio.to_thread(admin.list_topics, timeout=options.read_timeout)
    except KafkaException as error:
        raise BrokerUnreachable(mask_values(f"Kafka: {error.args[0].str()}", config)) from None
    return frozenset(metadata.topics)
