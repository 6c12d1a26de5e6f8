"""What KAFKA_TRANSACTIONS needs of a broker: the topic of proofs, and ACLs for the relay's login.

``relay-cli kafka-setup`` makes or prints it, ``relay-cli check`` examines it. The functions block, but for ``examine``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from shlex import quote
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from relay.brokers.kafka import proofs
from relay.brokers.kafka.options import KafkaOptions, connection_config, producer_config, transaction_config
from relay.brokers.kafka.transaction import NO_COORDINATOR, begin_epoch
from relay.brokers.login import present
from relay.core.durations import span
from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.finding import Finding, Level
from relay.core.origins import login_of
from relay.core.secrets import mask_values

_ON_TOPIC: Final = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")
_ON_IDS: Final = ("DESCRIBE", "WRITE")
_ADVICE: Final = "relay-cli kafka-setup makes the topic and the ACLs, --dry-run prints them"
_ON_BROKERS: Final = "look at the brokers' configuration and logs"


class KafkaNeeds(NamedTuple):
    """What there must be."""

    topic: str
    """Of the proofs."""
    transactional_ids: str
    """How those of the relays of this table begin."""
    principal: str | None
    """Who gets the rights; None where no login is named."""
    servers: str

    def commands(self) -> Iterator[str]:
        """Kafka's own tools with what makes it."""
        servers = f"--bootstrap-server {quote(self.servers)}"
        shape = " ".join(f"--config {name}={value}" for name, value in proofs.SHAPE.items())
        yield f"kafka-topics.sh {servers} --create --if-not-exists --topic {quote(self.topic)} --partitions 1 {shape}"
        if self.principal is None:
            return
        allow = f"kafka-acls.sh {servers} --add --allow-principal {quote(self.principal)}"
        on_topic, on_ids = (
            " ".join(f"--operation {operation.title().replace('_', '')}" for operation in operations)
            for operations in (_ON_TOPIC, _ON_IDS)
        )
        yield f"{allow} {on_topic} --topic {quote(self.topic)}"
        yield f"{allow} {on_ids} --transactional-id {quote(self.transactional_ids)} --resource-pattern-type prefixed"

    def acls(self, principal: str) -> list[AclBinding]:
        """The rights."""
        wanted = [(ResourceType.TOPIC, self.topic, ResourcePatternType.LITERAL, one) for one in _ON_TOPIC]
        ids = ResourceType.TRANSACTIONAL_ID
        wanted += [(ids, self.transactional_ids, ResourcePatternType.PREFIXED, one) for one in _ON_IDS]
        return [
            AclBinding(kind, name, pattern, principal, "*", AclOperation[one], AclPermissionType.ALLOW)
            for kind, name, pattern, one in wanted
        ]


class SetUp(NamedTuple):
    """What was done."""

    topic_made: bool
    """False: it was there, and is as it must be."""
    acls: int
    """Rights that are there now; 0 where no principal is named or the broker has no authorizer."""
    open_to_all: bool
    """The broker has no authorizer."""


def needs(options: KafkaOptions, principal: str | None) -> KafkaNeeds:
    """``principal``: whose, instead of the user's of the URL."""
    user = login_of(options.url)[0]
    prefix = options.transactions_prefix
    servers = producer_config(options)["bootstrap.servers"]
    return KafkaNeeds(proofs.topic_of(prefix), f"{prefix}/", principal or (f"User:{user}" if user else None), servers)


def set_up(options: KafkaOptions, wanted: KafkaNeeds) -> SetUp:
    """Make what is missing. Raises BrokerUnreachable, and ConfigError for a topic of another shape."""
    config = producer_config(options)
    connection = connection_config(config) | {"log_level": 0}
    try:
        made = proofs.ensure_topic(connection, wanted.topic)
        if wanted.principal is None:
            return SetUp(made, 0, open_to_all=False)
        admin = AdminClient(connection)
        granted = admin.create_acls(wanted.acls(wanted.principal), request_timeout=proofs.ANSWER_WITHIN)
        for each in granted.values():
            proofs.answered(each)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.SECURITY_DISABLED:
            return SetUp(made, 0, open_to_all=True)
        text = f"Kafka refuses it: {error.args[0].name()}: {error.args[0].str()}"
        raise BrokerUnreachable(mask_values(text, config)) from None
    return SetUp(made, len(granted), open_to_all=False)


async def examine(options: KafkaOptions) -> list[Finding]:
    """What of it the relay's login lacks. A transactional id is tried that is no relay's."""
    options = await present(options)
    return await asyncio.to_thread(lambda: list(_examined(options)))


def _examined(options: KafkaOptions) -> Iterator[Finding]:
    wanted, config = needs(options, None), producer_config(options)
    connection = connection_config(config) | {"log_level": 0}

    def refused(error: KafkaException, what: str) -> Finding:
        text = mask_values(f"{what}: {error.args[0].name()}: {error.args[0].str()}", config)
        advice = _ON_BROKERS if error.args[0].code() == NO_COORDINATOR else _ADVICE
        return Finding(Level.ERROR, "transactions", text, advice)

    named = f"topic of proofs {wanted.topic}"
    try:
        if not proofs.is_there(AdminClient(connection), wanted.topic):
            yield Finding(Level.WARNING, "transactions", f"{named} does not exist", _ADVICE)
        elif lacking := _lacking(connection, wanted.topic):
            message = f"{named}: this login lacks {', '.join(lacking)}"
            yield Finding(Level.ERROR, "transactions", message, _ADVICE)
        else:
            yield _kept(named, proofs.look_at(connection, wanted.topic))
    except ConfigError as error:
        yield Finding(Level.ERROR, "transactions", str(error), "then start the relays again")
    except KafkaException as error:
        yield refused(error, named)
    ids = config | transaction_config(options) | {"transactional.id": f"{wanted.transactional_ids}/check"}
    try:
        begin_epoch(ids | {"log_level": 0}, proofs.ANSWER_WITHIN)
    except KafkaException as error:
        yield refused(error, f"transactional ids that begin with {wanted.transactional_ids}")
    else:
        yield Finding(Level.OK, "transactions", f"this login may use ids that begin with {wanted.transactional_ids}")


def _kept(named: str, retention: proofs.Retention) -> Finding:
    """For how long proofs are kept: an outage of all relays must be shorter."""
    if retention.size >= 0:
        message = f"{named} has retention.bytes={retention.size}, by which proofs are deleted before their time"
        return Finding(Level.WARNING, "transactions", message, "set retention.bytes=-1")
    message = f"{named} is readable and writable, and keeps each proof"
    if retention.seconds >= 0:
        message += f" for {span(retention.seconds)}: an outage of all relays must be shorter"
    return Finding(Level.OK, "transactions", message)


def _lacking(connection: dict[str, Any], topic: str) -> list[str]:
    """The rights on the topic that this login has not."""
    admin = AdminClient(connection)
    [described] = admin.describe_topics(
        TopicCollection([topic]), request_timeout=proofs.ANSWER_WITHIN, include_authorized_operations=True
    ).values()
    allowed = {one.name for one in proofs.answered(described).authorized_operations or ()}
    return [one for one in _ON_TOPIC if one not in allowed]
