"""Proofs of what was published in a transaction: the records, their topic, and how they are read.

docs/design/exactly-once.md says what they are for. The key of a record is the holder (RELAY_ID); its value is the
version of the format, the fence in microseconds since 1970, and the ids of the events. In version 2, of copies for one
of several destinations that lack an event, that one's name stands before the ids, behind its length in a byte. Its time
is the fence's, so that a reader can begin at the time of a claim. Everything here blocks, and is called in a thread.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.event import EventId, Fence
from relay.core.proofs import Begun, LeasedRow, Proven

T = TypeVar("T")

KEPT: Final = 30 * 24 * 3600
"""Seconds for which proofs are kept in a topic that the relay makes."""
SHAPE: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(KEPT * 1000),
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}
"""The configuration of such a topic."""
_MOST_IDS: Final = 10_000  # of one record
_HEAD: Final = Struct("!Bq")
_OF_EVENTS: Final = 1  # versions of the format
_OF_COPIES: Final = 2
_ID: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MARGIN: Final = 1000  # milliseconds before a claim, from which proofs are read
_LONGEST_PREFIX: Final = 200
_AT_A_TIME: Final = 500  # records
ANSWER_WITHIN: Final = 10.0
"""Seconds for the answer to one request."""
_READ_WITHIN: Final = 60.0  # seconds: longer than a transaction may stay open

Record = tuple[str, bytes, int]
"""Key, value, and time in milliseconds since 1970."""


def topic_of(prefix: str) -> str:
    """The topic of an outbox' proofs. What no topic's name may have is an underscore there."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", prefix)[:_LONGEST_PREFIX] + ".proofs"


def _microseconds(fence: datetime) -> int:
    return (fence - _EPOCH) // _MICROSECOND


def records(holder: str, begun: Sequence[Begun]) -> Iterator[Record]:
    """The proofs of one transaction."""
    for one in begun:
        fence = _microseconds(one.fence)
        by_destination: dict[str, list[EventId]] = {}
        for event in one.events:
            by_destination.setdefault(event.proof_for, []).append(event.event_id)
        for destination, ids in by_destination.items():
            name = destination.encode()
            head = _HEAD.pack(_OF_COPIES, fence) + bytes([len(name)]) + name if name else _HEAD.pack(_OF_EVENTS, fence)
            for at in range(0, len(ids), _MOST_IDS):
                # All in one call: it costs a tenth of making a UUID of each.
                yield holder, head + bytes.fromhex("".join(ids[at : at + _MOST_IDS]).replace("-", "")), fence // 1000


def rows_of(key: bytes | None, value: bytes | None) -> Iterator[tuple[LeasedRow, str]]:
    """What a record proves, and of which destination; nothing where it is none."""
    if key is None or value is None or len(value) < _HEAD.size:
        return
    version, fence = _HEAD.unpack_from(value)
    ids, destination = value[_HEAD.size :], ""
    if version == _OF_COPIES and ids:
        end = 1 + ids[0]
        ids, destination = ids[end:], ids[1:end].decode("utf-8", "replace")
    elif version != _OF_EVENTS:
        return
    holder, at = key.decode("utf-8", "replace"), Fence(_EPOCH + fence * _MICROSECOND)
    for start in range(0, len(ids) - _ID + 1, _ID):
        yield LeasedRow(holder, at, EventId(str(uuid.UUID(bytes=ids[start : start + _ID])))), destination


def answered(request: Future[T], within: float = ANSWER_WITHIN) -> T:
    """What the broker answers to a request of an AdminClient, which has ``within`` seconds for it.

    Raises KafkaException: the client's own where no answer came, and the same where the client is late to say so.
    """
    try:
        return request.result(2 * within)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001 - the client's own code


def ensure_topic(connection: Mapping[str, Any], topic: str) -> bool:
    """Make the topic, or look at the one that is there; whether it was made.

    Raises as ``look_at``.
    """
    admin = AdminClient(dict(connection))
    made = admin.create_topics([NewTopic(topic, 1, -1, config=dict(SHAPE))], operation_timeout=ANSWER_WITHIN)[topic]
    try:
        answered(made)
    except KafkaException as error:
        if error.args[0].code() == KafkaError._TIMED_OUT:  # noqa: SLF001 - the code of a client's own error
            raise
        look_at(connection, topic)
        return False
    return True  # as it was asked for


class Retention(NamedTuple):
    """How long the topic keeps proofs, each with -1 for no limit."""

    seconds: float
    size: int
    """In bytes."""


def look_at(connection: Mapping[str, Any], topic: str) -> Retention:
    """Raises ConfigError for a topic whose proofs could be missed or lost, KafkaException where no broker answers."""
    admin = AdminClient(dict(connection))
    [described] = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_WITHIN).values()
    partitions = len(answered(described).partitions)
    if partitions != 1:
        raise ConfigError(
            f"KAFKA_TRANSACTIONS: the topic of proofs {topic} has {partitions} partitions and must have one; stop the "
            "relays of this table, wait until no lease is left, delete it and start again"
        )
    resource = ConfigResource(ResourceType.TOPIC, topic)
    [configured] = admin.describe_configs([resource], request_timeout=ANSWER_WITHIN).values()
    values = answered(configured)
    policy = values["cleanup.policy"].value
    if policy != "delete":
        raise ConfigError(
            f"KAFKA_TRANSACTIONS: the topic of proofs {topic} has cleanup.policy={policy}, by which proofs are lost; "
            "set cleanup.policy=delete"
        )
    milliseconds = int(values["retention.ms"].value)
    return Retention(max(milliseconds / 1000, -1.0), int(values["retention.bytes"].value))


def is_there(admin: AdminClient, topic: str, within: float = ANSWER_WITHIN) -> bool:
    """Whether the topic exists. Raises KafkaException where the broker does not say so in so many seconds."""
    [described] = admin.describe_topics(TopicCollection([topic]), request_timeout=within).values()
    try:
        answered(described, within)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return False
        raise
    return True


def read(connection: Mapping[str, Any], topic: str, rows: Sequence[LeasedRow]) -> Proven:
    """Of these rows those with a committed proof, of all that is in the topic now.

    Its end is that of a reader of uncommitted messages: for a reader of committed messages it lies before any open
    transaction, and a committed proof may lie behind one. Raises BrokerUnreachable, and KafkaException.
    """
    oldest = min(_microseconds(row.fence) for row in rows) // 1000 - _MARGIN
    admin = AdminClient(dict(connection))
    start, end = _offset(admin, topic, OffsetSpec.for_timestamp(oldest)), _offset(admin, topic, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    if start < 0:
        return {}
    reader = Consumer(
        {
            **connection,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    try:
        reader.assign([TopicPartition(topic, 0, start)])
        return _read_up_to(reader, start, end, frozenset(rows))
    finally:
        reader.close()


def _offset(admin: AdminClient, topic: str, spec: OffsetSpec) -> int:
    """By the view of a reader of uncommitted messages."""
    answers = admin.list_offsets(
        {TopicPartition(topic, 0): spec},
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=ANSWER_WITHIN,
    )
    [answer] = answers.values()
    return int(answered(answer).offset)


def _read_up_to(reader: Consumer, at: int, end: int, rows: frozenset[LeasedRow]) -> Proven:
    """The end of what is committed moves on as open transactions end; each such end is reported once."""
    holders = {row.holder.encode() for row in rows}
    proven: dict[LeasedRow, str] = {}
    deadline = time.monotonic() + _READ_WITHIN
    while at < end:
        for message in reader.consume(_AT_A_TIME, 0.5):
            error = message.error()
            if error is None:
                at = (message.offset() or 0) + 1
                if message.key() in holders:
                    known = rows_of(message.key(), message.value())
                    proven.update((row, destination) for row, destination in known if row in rows)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                at = max(at, message.offset() or 0)
            else:
                raise KafkaException(error)
        if at < end and time.monotonic() > deadline:
            raise BrokerUnreachable(f"transactions stay open in the topic of proofs {reader.assignment()[0].topic}")
    return proven
