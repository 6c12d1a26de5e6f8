"""What the Kafka publisher can be configured with, and how that becomes librdkafka's configuration."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from relay.brokers.files import check_files
from relay.brokers.login import BrokerOptions
from relay.brokers.server_address import read_addresses
from relay.core.errors import ConfigError
from relay.core.origins import LiveUrl, login_of
from relay.core.secrets import mask_values

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_PROPERTY = re.compile(r"[a-z]+(?:\.[a-z0-9]+)+")
_SHAPE = (
    "write host:9092,host2:9092 or kafka://user:password@host:9092, and percent-encode special characters of user and "
    "password (@ is %40, / is %2F, ? is %3F, # is %23)"
)
_LONGEST_LINGER = 0.001
"""Seconds. A batch is handed over within microseconds, so a longer wait would only delay it (measured: batches of
100 take 2.0 ms with 1 ms of lingering and 6.2 ms with 5 ms; 0 ms saves 1 ms and costs a quarter more CPU)."""
_LARGEST_BATCH = 1_000_000
"""Bytes; below the 1,048,588 that a broker takes for one batch by default."""
_MOST = 2**31 - 1  # of most of librdkafka's numbers
_UNKNOWN_TOPIC_AFTER = 2.0
"""Seconds for which an unknown topic is looked up again before its events fail."""
_OURS = frozenset(
    {"bootstrap.servers", "metadata.broker.list", "acks", "request.required.acks", "enable.idempotence"}
    | {"transactional.id", "delivery.report.only.error", "log.queue", "enabled_events"}
)
"""Properties that the relay's guarantees depend on; the URL must not set them."""
_RUNS = frozenset({"enable.gapless.guarantee", "message.timeout.ms", "delivery.timeout.ms"})
"""Properties that keep runs as the relay sets them; where the URL sets one, events of a key go one at a time."""
CERTIFICATES = tuple(f"ssl.{name}.location" for name in ("ca", "certificate", "key", "keystore", "crl"))
"""Properties that name files, which librdkafka reads once."""
_CONNECTION = (
    "bootstrap.",
    "client.",
    "security.",
    "sasl.",
    "oauth_",
    "ssl.",
    "enable.ssl",
    "socket.",
    "broker.",
)
_LONGEST_TRANSACTION = 20.0  # seconds; a reader of committed messages waits for as long behind what a killed relay left
_LONGEST_SETTLE = 15.0
_NOT_KAFKA = re.compile(r"(?P<server>\S+?)(?:/\w+)?: Receive failed: Invalid response size")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions(BrokerOptions):
    """Times are seconds, sizes are bytes.

    ``url`` is ``host:9092,host2:9092`` or ``kafka://user:password@host:9092?property=value``.
    User and password are percent-decoded, and mean SASL_SSL with PLAIN unless ``security.protocol`` and
    ``sasl.mechanism`` say otherwise. Every other librdkafka property may stand in the query
    (``security.protocol=SSL&ssl.ca.location=/etc/ca.pem``), except those that the guarantees depend on. By default keys
    are partitioned by CRC32; ``partitioner=murmur2_random`` puts them where Java's producer does.
    """

    batch_size: int | None
    """Most messages of one produce request; None is librdkafka's own 10,000."""
    batch_bytes: int
    """The largest message this client takes (``message.max.bytes``)."""
    batch_timeout: float
    """Upper bound on lingering; at most 1 ms is used, since a batch is handed over whole."""
    compression: Compression
    timestamp: Literal["now", "created_at"]
    """What messages are stamped with: the time of the offer, or the event's own where the broker takes it."""
    required_acks: Literal["all", "one"]
    """``one`` is the leader's acknowledgement alone, and works without idempotence."""
    write_timeout: float
    """From the offer of a message to its acknowledgement, resends included (``message.timeout.ms``)."""
    read_timeout: float
    """For the reply to any other request (``socket.timeout.ms``, which is not below ``write_timeout``)."""
    connection_timeout: float
    """For one connection, TLS and login included (``socket.connection.setup.timeout.ms``; 1 s at least)."""
    max_attempts: int
    """The client's own resends of one message."""
    queue_messages: int = 100_000
    """Most messages the client holds; beyond that ``publish`` waits."""
    queue_bytes: int = 256 * 2**20
    """Most bytes the client holds; beyond that ``publish`` waits."""
    in_order: bool
    """Order per key: what the client holds fails together, so that several events of a key may be in flight."""
    receipts: bool
    """Whether an acknowledgement carries partition and offset."""
    transactions: bool
    """Publish in transactions, with proofs: ``relay.brokers.kafka.transactions``."""
    transactions_prefix: str
    """How transactional ids and the name of the topic of proofs begin."""
    relay_id: str
    lease_timeout: float
    allowed_types: Sequence[str]
    """Patterns of event types: topics of Kafka's own state are refused but for those of these that begin so."""
    now: Callable[[], float] = time.time
    """What messages are stamped with, in seconds since 1970: a broker refuses a timestamp that is far off."""


def producer_config(options: KafkaOptions) -> dict[str, Any]:
    """The configuration of librdkafka. Raises ConfigError for an invalid URL."""
    servers, connection = _parse(options.url)
    everyone = options.required_acks == "all"
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "client.id": "relay",
        "acks": "all" if everyone else "1",
        "enable.idempotence": everyone,
        "compression.type": options.compression,
        "linger.ms": min(options.batch_timeout, _LONGEST_LINGER, options.write_timeout / 2) * 1000,
        "batch.size": min(_LARGEST_BATCH, options.batch_bytes),
        "message.max.bytes": _within(1000, options.batch_bytes, 1_000_000_000),
        "message.send.max.retries": _within(1 if everyone else 0, options.max_attempts, _MOST),
        "message.timeout.ms": _milliseconds(options.write_timeout),
        "request.timeout.ms": _milliseconds(options.write_timeout, most=900_000),
        # A broker answers one connection's requests in turn: any reply may have to wait behind an acknowledgement.
        "socket.timeout.ms": _milliseconds(max(options.read_timeout, options.write_timeout), least=10, most=300_000),
        "socket.connection.setup.timeout.ms": _milliseconds(options.connection_timeout, least=1000),
        "topic.metadata.propagation.max.ms": _milliseconds(min(_UNKNOWN_TOPIC_AFTER, options.write_timeout / 2)),
        "queue.buffering.max.messages": _within(1, options.queue_messages, _MOST),
        "queue.buffering.max.kbytes": _within(1, options.queue_bytes // 1024, _MOST),
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        "statistics.interval.ms": 0,
    }
    if options.batch_size is not None:
        config["batch.num.messages"] = _within(1, options.batch_size, 1_000_000)
    check_files(
        connection, [name for name in (*CERTIFICATES, "sasl.kerberos.keytab") if connection.get(name) != "probe"]
    )
    if options.live is not None and options.live.command is not None:
        return config | connection | _from_command(options.live, connection)
    return config | connection


def connection_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a producer's configuration clients of other kinds need, too."""
    return {name: value for name, value in config.items() if name.startswith(_CONNECTION)}


def transaction_timeout(options: KafkaOptions) -> float:
    """Seconds for which a transaction may stay open."""
    return min(_LONGEST_TRANSACTION, options.lease_timeout / 3)


def settle_margin(options: KafkaOptions) -> float:
    """Seconds that a lease must last beyond its transaction, for the settle. A lease that is renewed in time does."""
    return min(_LONGEST_SETTLE, options.lease_timeout / 4)


def transaction_config(options: KafkaOptions) -> dict[str, Any]:
    """What a producer needs besides for transactions; an id is to be added."""
    config, longest = producer_config(options), _milliseconds(transaction_timeout(options), least=1000)
    return {
        "transaction.timeout.ms": longest,
        "message.timeout.ms": min(config["message.timeout.ms"], longest),
        "socket.timeout.ms": min(config["socket.timeout.ms"], longest),
        "delivery.report.only.error": not options.receipts,
    }


def _from_command(live: LiveUrl, connection: dict[str, str]) -> dict[str, Any]:
    """What is configured while a command says the password, or the token, which librdkafka asks for itself."""
    if "OAUTHBEARER" in (connection.get("sasl.mechanism"), connection.get("sasl.mechanisms")):
        return {"oauth_cb": lambda _: (login_of(live.latest)[1], live.until)}
    return {} if connection.get("sasl.password") else {"sasl.password": "unset"}


def run_config(options: KafkaOptions) -> dict[str, Any] | None:
    """What a client needs besides to keep runs; None when runs are not wanted or cannot be kept.

    An idempotent producer keeps the order of a partition, and with ``enable.gapless.guarantee`` it stops for good when
    a message fails. Its own timeouts are the exception, so it has none. Keys must stay in their partition.
    """
    _, properties = _parse(options.url)
    if not options.in_order or options.required_acks != "all" or _RUNS.intersection(properties):
        return None
    if properties.get("partitioner") == "random":
        return None
    return {"enable.gapless.guarantee": True, "message.timeout.ms": 0}


def refusal(text: str, options: KafkaOptions) -> str:
    """Why librdkafka refused the configuration; without its own words where they may hold a part of a password."""
    if "@" in options.url.partition("?")[2]:
        return f"PUBLISHER_URL or KAFKA_*: librdkafka refuses a property or its value; {_SHAPE}"
    config = producer_config(options)
    if "ssl" not in text:
        return f"PUBLISHER_URL or KAFKA_*: {mask_values(text, config)}"
    # OpenSSL's own text names neither the file nor what is wrong with it.
    named = ", ".join(f"{name}={config[name]!r}" for name in CERTIFICATES if name in config)
    return f"PUBLISHER_URL or KAFKA_*: {mask_values(text, config)}; PEM files are needed in {named or 'ssl.*'}"


def plain_error(text: str) -> str:
    """An error of librdkafka; what it says of a server of another kind would lead to a wrong setting."""
    match = _NOT_KAFKA.search(text)
    return f"{match['server']}: the server that answers is not a Kafka broker" if match else text


def _parse(url: str) -> tuple[str, dict[str, str]]:
    """The bootstrap servers, and the connection's properties."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator:
        rest = url.strip()
    elif scheme.lower() != "kafka":
        raise ConfigError(f"PUBLISHER_URL: its scheme is not a Kafka scheme; {_SHAPE}")
    address, _, query = rest.partition("?")
    login, _, servers = address.rstrip("/").rpartition("@")
    properties = dict(parse_qsl(query, keep_blank_values=True))
    wrong = f"PUBLISHER_URL names no Kafka broker; {_SHAPE}"
    read_addresses(servers.removesuffix(","), 9092, wrong)  # librdkafka takes port 99999 for 34463
    # With a bare ? in the password, its parts would be read as server and properties, and shown by later errors.
    if "@" in query and not all(map(_PROPERTY.fullmatch, properties)):
        raise ConfigError(wrong)
    if refused := sorted(_OURS & properties.keys()):
        raise ConfigError(f"PUBLISHER_URL: {refused[0]} must not be set there; the relay's guarantees depend on it")
    if not login:
        return servers, properties
    user, _, password = login.partition(":")
    defaults = {"security.protocol": "SASL_SSL"}
    if not {"sasl.mechanism", "sasl.mechanisms"} & properties.keys():
        defaults["sasl.mechanism"] = "PLAIN"
    return servers, defaults | properties | {"sasl.username": unquote(user), "sasl.password": unquote(password)}


def _within(least: int, value: int, most: int) -> int:
    """The value, or the bound that it passes: librdkafka refuses to start with what is outside of its ranges."""
    return min(max(value, least), most)


def _milliseconds(seconds: float, *, least: int = 1, most: int = _MOST) -> int:
    return _within(least, int(seconds * 1000), most)
