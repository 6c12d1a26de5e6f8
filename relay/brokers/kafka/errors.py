"""librdkafka's error codes, as outcomes (docs/reference/messages.md#errors), and the rules for a topic's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from relay.core.allowed import refused_name
from relay.core.event import OutboxEvent
from relay.core.outcome import ConnectionCut, Outcome, Permanent, TimedOut, Transient, Unreachable

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

Kind = type[Permanent] | type[Transient] | type[TimedOut] | type[ConnectionCut] | type[Unreachable]

TABLE: MappingProxyType[str, Kind] = MappingProxyType(
    {
        # The message or its destination can never be accepted.
        "MSG_SIZE_TOO_LARGE": Permanent,  # over the client's, the topic's or the broker's limit
        "RECORD_LIST_TOO_LARGE": Permanent,  # over the topic's segment size
        "INVALID_RECORD": Permanent,  # the broker validated it: a compacted topic and no key
        "TOPIC_EXCEPTION": Permanent,  # an invalid name, or one of the broker's own topics
        # No answer in time; the engine probes.
        "_MSG_TIMED_OUT": TimedOut,  # message.timeout.ms passed, whatever the reason was
        "_TIMED_OUT": TimedOut,
        "_TIMED_OUT_QUEUE": TimedOut,
        "REQUEST_TIMED_OUT": TimedOut,  # the in-sync replicas did not acknowledge in time
        "NETWORK_EXCEPTION": TimedOut,  # cut off before the reply: the broker may have it or not
        # Cut off with each of the client's resends.
        "_TRANSPORT": ConnectionCut,
        # No connection, or a refused login.
        "_ALL_BROKERS_DOWN": Unreachable,
        "_RESOLVE": Unreachable,
        "_AUTHENTICATION": Unreachable,
        "_SSL": Unreachable,
        "SASL_AUTHENTICATION_FAILED": Unreachable,
        "UNSUPPORTED_SASL_MECHANISM": Unreachable,
        "ILLEGAL_SASL_STATE": Unreachable,
        # Returned by the client: it was purged, or it failed and is replaced.
        "_PURGE_QUEUE": Unreachable,
        "_PURGE_INFLIGHT": Unreachable,
        "_DESTROY": Unreachable,
        "_FATAL": Unreachable,
        # The cause of a fatal error, as reported for the messages of the failed request; the client is replaced.
        "OUT_OF_ORDER_SEQUENCE_NUMBER": Unreachable,
        "UNKNOWN_PRODUCER_ID": Unreachable,
        "INVALID_PRODUCER_EPOCH": Unreachable,
        "INVALID_PRODUCER_ID_MAPPING": Unreachable,
        "PRODUCER_FENCED": Unreachable,
        # Everything else is transient: leader changes, throttling, TOPIC_AUTHORIZATION_FAILED, an unknown topic
        # (an operator can create or grant it), NOT_ENOUGH_REPLICAS, and whatever is new.
    }
)

BATCH_REFUSALS = frozenset(
    {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "_INVALID_DIFFERENT_RECORD"}
)
"""Codes with which a broker refuses a whole batch because of one message; only a message sent alone is proven bad."""

GAPLESS = "_GAPLESS_GUARANTEE"
"""The fatal error of a client that keeps runs, after a message has failed."""

COLLATERAL = frozenset(
    {GAPLESS, "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL", "_DESTROY", "OUT_OF_ORDER_SEQUENCE_NUMBER"}
)
"""Codes of messages that failed because another one did, in a client that keeps runs."""

FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
"""Codes of a producer whose epoch another one of its transactional id has ended. They accuse no message."""

FATAL_UNTIL_GRANTED = frozenset({"CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"})
"""Fatal errors that a new client meets again until an operator grants the right: these use up attempts."""

REFUSED_LOGIN = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"})
"""Reasons that say more than the connection failures they lead to."""

STEERING = ("__", "_schemas.")
"""How topics begin that Kafka keeps its own state in, and the one of schema registries."""

_LONGEST_TOPIC = 249
_LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]+")


def classify(code: str, text: str) -> Outcome:
    """The outcome of a message that failed with this code."""
    kind = TABLE.get(code, Transient)
    if kind is Unreachable or kind is ConnectionCut:
        return kind(f"{code}: {text}")
    return kind(code, text)  # type: ignore[call-arg]


def invalid_topic(name: str, allowed: Sequence[str] = (), reserved: str = "") -> Permanent | None:
    """Why no message is sent to a topic of this name; None when one may be. ``allowed``: ALLOWED_EVENT_TYPES.

    ``reserved``: the topic of proofs, a forged one of which would settle events of others.
    """
    if reserved and name == reserved:
        return Permanent("NOT_ALLOWED", f"{name!r} is the topic of the relay's own proofs (KAFKA_TRANSACTIONS)")
    if not name:
        reason = "a topic's name must not be empty"
    elif len(name) > _LONGEST_TOPIC:
        reason = f"a topic's name has at most {_LONGEST_TOPIC} characters, this one has {len(name)}"
    elif name in (".", ".."):
        reason = "a topic's name must not be . or .."
    elif not _LEGAL_TOPIC.fullmatch(name):
        reason = f"a topic's name consists of ASCII letters, digits, dot, underscore and hyphen, not {name!r}"
    else:
        return refused_name(name, STEERING, allowed)
    return Permanent("TOPIC_EXCEPTION", reason)


def refused_message(event: OutboxEvent, error: KafkaError, limit: int) -> Outcome:
    """The outcome of a message that ``produce`` itself refused."""
    outcome = classify(error.name(), error.str())
    if isinstance(outcome, Permanent) and outcome.code == "MSG_SIZE_TOO_LARGE":
        return Permanent(
            outcome.code,
            f"{len(event.payload)} bytes of payload, and key and headers: over the {limit} of message.max.bytes",
        )
    return outcome
