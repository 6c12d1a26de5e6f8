"""Every kind of destination, a row each: what the rest of the project has to know of it without importing its client.

Settings, ``relay-cli check``, the fleet, the greeting of strange servers, the documents and every error that lists
kinds read the rows. A destination of this project is a folder beside this file and a row here. One of another package
is a row too, an instance of ``DestinationKind`` under the entry point group ``openoutbox.destinations``; the entry
point has the kind's name. Such packages are imported when PUBLISHER_TYPE or the scheme of a URL asks for something that
is no row here. One that cannot be used is named, and stops nothing but its own use.

Standard library and core only: a row names its modules as text.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from relay.core.errors import ConfigError
from relay.core.finding import Finding
from relay.core.formats import cloudevents
from relay.core.origins import AHEAD
from relay.core.ports import Publisher

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS: Final = "openoutbox.destinations"
_CLOUDEVENTS: Final = ("cloudevents", "cloudevents-structured")


class DestinationConfig(NamedTuple):
    """What a destination of another package is built from."""

    name: str
    """PUBLISHER_NAME, or its name in DESTINATIONS_FILE."""
    url: str
    """With its secrets; never to be shown."""
    variables: Mapping[str, str]
    """Those whose names begin as the row's ``prefixes`` say, as text."""
    in_order: bool
    """Whether ORDERING=key is on."""


class LoginPath(NamedTuple):
    """Whether what answers at a URL has shown who it is before it gets the URL's login."""

    verified: Callable[[str, Mapping[str, str]], bool]
    """Of the URL's scheme and query."""
    instead: str
    """What to write where it has not."""
    token: bool = False
    """Whether a login of one part is a secret, not a user's name."""


class CheckContext(NamedTuple):
    """What ``relay-cli check`` knows of the relay around a destination. Times are seconds."""

    repeated_within: float
    """From a claim until the event is offered again, where its relay died."""
    retry_max_delay: float
    sample: int
    """Most waiting events whose types are checked."""
    timeout: float
    """Longest wait for one connection."""


Check = Callable[[Any, Sequence[str] | None, CheckContext], Awaitable[list[Finding]]]
"""Looks for what events of these names need: a topic, a queue. None: the names are not known. Takes the options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationKind:
    """One kind of destination."""

    name: str
    """The value of PUBLISHER_TYPE."""
    title: str
    """As prose calls it."""
    server: str
    """What listens on its address, with an article."""
    schemes: tuple[str, ...]
    """Of PUBLISHER_URL; the first one is written in examples."""
    example: str
    """A URL, as an error shows it."""
    noun: str = "destination"
    """What an event's type names there."""
    apart_by_name: bool = False
    """Whether each of those can fail on its own."""
    port: int | None = None
    """The default one; None where the URL names no host."""
    extra: str = ""
    """The extra of the package that brings its client; empty for none."""
    timeout: str = ""
    """The variable that bounds one publish; empty without one."""
    dated: str = ""
    """What of its messages has a time that its servers may refuse, and by whose clock; empty for nothing."""
    prefixes: tuple[str, ...] = ()
    """How its variables begin."""
    guarded: tuple[str, ...] | None = None
    """Where other programs have variables with such a beginning, those that are certainly meant for the relay."""
    formats: tuple[str, ...] = ()
    """Values of MESSAGE_FORMAT that it can send, besides the contract's form."""
    binding: cloudevents.Binding | None = None
    """How its messages carry CloudEvents; None where it has no such format."""
    login: LoginPath | None = field(default=None, repr=False)
    """None where no login stands in the URL, or its client refuses a path that is not verified."""
    asked_ahead: float = 0.0
    """Seconds before its end that a password of a command is renewed: for a client that reconnects without asking."""
    secret_path: bool = False
    """Whether the path of its URL may be a secret."""
    apart: Callable[[Any, str, str], str] | None = field(default=None, repr=False)
    """What tells two destinations on one server apart, by settings, the URL's path and its query; None: the path."""
    receiver: str = ""
    """``module:function``: where events go, of the options; empty where servers and path of the URL say it."""
    url_optional: bool = False
    """Whether HTTP_ENDPOINTS_FILE may stand for PUBLISHER_URL."""
    options: str = ""
    """``module:class``, whose fields are filled from the variables with the row's ``prefixes``."""
    publisher: str = ""
    """``module:class``, made from the options."""
    build: Callable[[DestinationConfig], Publisher] | None = field(default=None, repr=False)
    """Makes the publisher of another package's destination; raises ConfigError."""
    check: str = ""
    """``module:function``, a ``Check``; empty where an event needs nothing that is made beforehand."""
    window: str = ""
    """``module:function`` of the options: seconds for which a repeated event is dropped; empty where none is."""
    answered: str = "connected and authenticated"
    """What an answered probe has shown."""
    unreachable: str = ""
    """What to do when it does not answer, where its URL is no address."""
    hello: bytes = b""
    """What such a server answers without a login."""
    recognize: Callable[[bytes], bool] | None = field(default=None, repr=False)
    """Whether the first 16 bytes of an answer are of such a server; None where that cannot be told."""


def load(place: str) -> Any:  # noqa: ANN401 -- a class or a function
    """Import ``module:name``. Raises ImportError without the extra of its kind."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


_AWS: Final[dict[str, Any]] = {
    "extra": "aws",
    "timeout": "AWS_PUBLISH_TIMEOUT",
    "options": "relay.brokers.aws.options:AwsOptions",
    "publisher": "relay.brokers.aws.publisher:AwsPublisher",
    "check": "relay.brokers.aws.check:check",
    "unreachable": "check the credentials (aws sts get-caller-identity shows whose they are), region and endpoint",
    "server": "the service",
    "apart_by_name": True,
    # The region, and what stands in for the service or names another account.
    "apart": lambda settings, _path, query: f"{query}/{settings.sns_topic_arn_prefix or ''}",
    "dated": "AWS requests are signed by this host's clock",
}

KINDS: Final[Mapping[str, DestinationKind]] = {
    kind.name: kind
    for kind in (
        DestinationKind(
            name="kafka",
            title="Kafka",
            server="a Kafka broker",
            schemes=("kafka",),
            example="host:9092",
            noun="topic",
            port=9092,
            extra="kafka",
            timeout="KAFKA_WRITE_TIMEOUT",
            dated="Kafka messages are stamped by the database's clock",
            prefixes=("KAFKA_",),
            formats=(*_CLOUDEVENTS, "debezium", "debezium-server"),
            binding=cloudevents.KAFKA,
            login=LoginPath(  # SCRAM shows no password to who answers
                lambda _scheme, query: (
                    query.get("security.protocol", "SASL_SSL").upper() == "SASL_SSL"
                    or "PLAIN" not in query.get("sasl.mechanism", query.get("sasl.mechanisms", "PLAIN")).upper()
                ),
                "security.protocol=SASL_SSL",
            ),
            asked_ahead=AHEAD,
            options="relay.brokers.kafka.options:KafkaOptions",
            publisher="relay.brokers.kafka.transactions:publisher_of",
            check="relay.brokers.kafka.check:check",
            # ApiVersions, version 0, correlation id 1, no client id; the answer begins with its size and that id.
            hello=bytes.fromhex("0000000a 0012 0000 00000001 ffff"),
            recognize=lambda answer: answer[4:8] == b"\0\0\0\x01" and answer[:2] == b"\0\0",
        ),
        DestinationKind(
            name="nats",
            title="NATS JetStream",
            server="a NATS server",
            schemes=("nats", "tls"),
            example="nats://host:4222",
            noun="subject",
            port=4222,
            extra="nats",
            timeout="NATS_PUBLISH_TIMEOUT",
            prefixes=("NATS_",),
            formats=_CLOUDEVENTS,
            binding=cloudevents.NATS,
            login=LoginPath(
                lambda scheme, query: scheme == "tls" or any(name.startswith("tls_") for name in query),
                "tls://",
                token=True,
            ),
            window="relay.brokers.nats.streams:duplicate_window",
            options="relay.brokers.nats.options:NatsOptions",
            publisher="relay.brokers.nats.publisher:NatsPublisher",
            check="relay.brokers.nats.check:check",
            recognize=lambda answer: answer.startswith(b"INFO "),
        ),
        DestinationKind(
            name="redis",
            title="Redis",
            server="a Redis server",
            schemes=(
                "redis",
                "rediss",
                "redis+sentinel",
                "rediss+sentinel",
                "redis+cluster",
                "rediss+cluster",
                "unix",
            ),
            example="redis://host:6379/0",
            noun="stream",
            port=6379,
            extra="redis",
            timeout="REDIS_WRITE_TIMEOUT",
            prefixes=("REDIS_",),
            formats=_CLOUDEVENTS,
            binding=cloudevents.REDIS,
            login=LoginPath(
                lambda scheme, query: scheme[:6] == "rediss" and query.get("ssl_cert_reqs", "required") == "required",
                "rediss://",
            ),
            options="relay.brokers.redis.options:RedisOptions",
            publisher="relay.brokers.redis.publisher:RedisPublisher",
            check="relay.brokers.redis.check:check",
            hello=b"PING\r\n",
            recognize=lambda answer: answer[:5] in (b"+PONG", b"-NOAU", b"-NOPE", b"-DENI"),
        ),
        DestinationKind(
            name="rabbitmq",
            title="RabbitMQ",
            server="a RabbitMQ node",
            schemes=("amqp", "amqps"),
            example="amqp://host:5672",
            noun="queue",
            port=5672,
            extra="rabbitmq",
            timeout="RABBITMQ_PUBLISH_TIMEOUT",
            prefixes=("RABBITMQ_",),
            formats=_CLOUDEVENTS,
            binding=cloudevents.AMQP,
            login=LoginPath(lambda scheme, _query: scheme == "amqps", "amqps://"),
            # %2F is the default vhost; each exchange is a destination of its own.
            apart=lambda settings, path, _query: (
                f"{'' if path.lower() == '%2f' else path}/{settings.rabbitmq_exchange or ''}"
            ),
            options="relay.brokers.rabbitmq.options:RabbitOptions",
            publisher="relay.brokers.rabbitmq.publisher:RabbitPublisher",
            check="relay.brokers.rabbitmq.check:check",
            # AMQP 0-9-1; the answer is connection.start, a method on channel 0.
            hello=b"AMQP\0\0\x09\x01",
            recognize=lambda answer: answer[:3] == b"\x01\0\0" and answer[7:11] == bytes.fromhex("000a000a"),
        ),
        DestinationKind(
            name="http",
            title="HTTP endpoints (webhooks)",
            server="a web server",
            schemes=("https", "http"),
            example="https://host/path",
            noun="endpoint",
            port=443,
            extra="http",
            timeout="HTTP_TIMEOUT",
            dated="webhook-timestamp and its signature are by the database's clock",
            prefixes=("HTTP_",),
            guarded=("HTTP_E", "HTTP_SECRET", "HTTP_TIMEOUT", "HTTP_CONNECTION", "HTTP_TLS_", "HTTP_ALLOW_"),
            formats=_CLOUDEVENTS,
            binding=cloudevents.HTTP,
            login=LoginPath(lambda scheme, _query: scheme == "https", "https://"),
            url_optional=True,
            secret_path=True,
            receiver="relay.brokers.http.endpoints:receiver",
            options="relay.brokers.http.options:HttpOptions",
            publisher="relay.brokers.http.publisher:HttpPublisher",
            answered="connected; no request was sent",
            unreachable="check the URL, the name, the network and HTTP_TLS_*; its events wait until it answers",
            hello=b"GET / HTTP/1.0\r\n\r\n",
            recognize=lambda answer: answer.startswith(b"HTTP/"),
        ),
        DestinationKind(
            name="sqs",
            title="SQS",
            schemes=("sqs",),
            example="sqs://eu-central-1",
            noun="queue",
            prefixes=("AWS_", "SQS_"),
            guarded=("SQS_",),
            **_AWS,
        ),
        DestinationKind(
            name="sns",
            title="SNS",
            schemes=("sns",),
            example="sns://eu-central-1",
            noun="topic",
            prefixes=("AWS_", "SNS_"),
            guarded=("SNS_",),
            **_AWS,
        ),
    )
}
"""Those of this project, by their names."""
UNSENT: Final[Mapping[str, str]] = {
    "stdout": "relay.brokers.stdout:StdoutPublisher",
    "null": "relay.brokers.null:NullPublisher",
}
"""Publishers that reach no destination, by their PUBLISHER_TYPE."""


def listed(words: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


@cache
def of_others() -> tuple[Mapping[str, DestinationKind], Mapping[str, str]]:
    """The kinds of other packages by their names, and why one cannot be used. Imports these packages, once."""
    from importlib.metadata import entry_points  # noqa: PLC0415 -- slow to import, and rarely needed

    kinds: dict[str, DestinationKind] = {}
    broken: dict[str, str] = {}
    taken = {scheme: kind.name for kind in KINDS.values() for scheme in kind.schemes}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
        try:
            kind = _checked(point, taken.keys() | kinds.keys() | KINDS.keys() | UNSENT.keys())
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- whatever another package raises when it is imported
            reason = str(error) or type(error).__name__
            broken[point.name] = f"the package of the destination {point.name} ({point.value}) cannot be used: {reason}"
            continue
        kinds[kind.name] = kind
        taken.update(dict.fromkeys(kind.schemes, kind.name))
    return kinds, broken


def _checked(point: EntryPoint, taken: set[str]) -> DestinationKind:
    """The row of an entry point. Raises whatever its import raises, and ConfigError for a row that cannot be used."""
    kind = point.load()
    if not isinstance(kind, DestinationKind):
        raise ConfigError(f"it is a {type(kind).__name__}, not a relay.brokers.kinds.DestinationKind")
    if kind.name != point.name or kind.build is None:
        raise ConfigError("its name must be that of the entry point, and it needs build")
    if twice := taken & {kind.name, *kind.schemes}:
        raise ConfigError(f"{listed(sorted(twice))} is taken")
    return kind


def find(name: str) -> DestinationKind | None:
    """The kind of this name; None for one that is not known or cannot be used."""
    return KINDS.get(name) or (None if name in UNSENT else of_others()[0].get(name))


def of_url(url: str) -> DestinationKind | None:
    """The kind that the URL's scheme implies; None without a scheme, or for an unknown one."""
    scheme, separator, _ = url.strip().lower().partition("://")
    if not separator:
        return None
    return next((kind for kind in _with_others(scheme) if scheme in kind.schemes), None)


def _with_others(scheme: str) -> Iterator[DestinationKind]:
    yield from KINDS.values()
    if scheme not in ("postgres", "postgresql"):
        yield from of_others()[0].values()


def names() -> tuple[str, ...]:
    """Every usable kind's name, in the order in which they are shown."""
    return (*KINDS, *of_others()[0])
