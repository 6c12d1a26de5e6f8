"""From settings to the publisher of PUBLISHER_TYPE, and to the options of each kind of destination.

For the composition (``relay.app``), benchmarks and tests. Nothing connects here, and a broker's module is imported only
when that broker is built.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from relay.app.required import required
from relay.brokers import kinds
from relay.brokers.kinds import DestinationConfig
from relay.core.errors import ConfigError
from relay.core.extras import requires
from relay.core.formats import cloudevents
from relay.core.formats.choice import message_format
from relay.core.formats.message import MessageFormat
from relay.core.origins import AHEAD, LiveUrl, PasswordCommand
from relay.core.origins import of as origin_of
from relay.core.ports import Publisher
from relay.settings.settings import Settings

if TYPE_CHECKING:
    from relay.brokers.aws.options import AwsOptions
    from relay.brokers.http.endpoints import Endpoint
    from relay.brokers.http.options import HttpOptions
    from relay.brokers.kafka.options import KafkaOptions
    from relay.brokers.nats.options import NatsOptions
    from relay.brokers.rabbitmq.options import RabbitOptions
    from relay.brokers.redis.options import RedisOptions


def kafka_options(settings: Settings) -> KafkaOptions:
    """PUBLISHER_URL and the KAFKA_* variables. Raises ConfigError without a URL or the extra."""
    with requires("kafka", "PUBLISHER_TYPE=kafka"):
        from relay.brokers.kafka.options import KafkaOptions

    return KafkaOptions(
        message_format=_message_format(settings, cloudevents.KAFKA),
        in_order=settings.ordering == "key",
        allowed_types=settings.allowed_event_types or (),
        receipts=_wants_receipts(settings),
        url=required(settings.publisher_url, "PUBLISHER_URL"),
        live=_live(settings, "KAFKA_PASSWORD_COMMAND", AHEAD),
        batch_size=settings.kafka_batch_size,
        batch_bytes=settings.kafka_batch_bytes,
        batch_timeout=settings.kafka_batch_timeout,
        compression=settings.kafka_compression,
        required_acks="one" if settings.kafka_required_acks == "one" else "all",
        write_timeout=settings.kafka_write_timeout,
        read_timeout=settings.kafka_read_timeout,
        connection_timeout=settings.kafka_connection_timeout,
        max_attempts=settings.kafka_max_attempts,
    )


def nats_options(settings: Settings) -> NatsOptions:
    """PUBLISHER_URL and the NATS_* variables. Raises ConfigError without a URL or the extra."""
    with requires("nats", "PUBLISHER_TYPE=nats"):
        from relay.brokers.nats.options import NatsOptions

    return NatsOptions(
        message_format=_message_format(settings, cloudevents.NATS),
        allowed_types=settings.allowed_event_types or (),
        receipts=_wants_receipts(settings),
        url=required(settings.publisher_url, "PUBLISHER_URL"),
        live=_live(settings, "NATS_PASSWORD_COMMAND"),
        publish_timeout=settings.nats_publish_timeout,
        connection_timeout=settings.nats_connection_timeout,
    )


def redis_options(settings: Settings) -> RedisOptions:
    """PUBLISHER_URL and the REDIS_* variables. Raises ConfigError without a URL or the extra."""
    with requires("redis", "PUBLISHER_TYPE=redis"):
        from relay.brokers.redis.options import RedisOptions

    return RedisOptions(
        message_format=_message_format(settings, cloudevents.REDIS),
        receipts=_wants_receipts(settings),
        url=required(settings.publisher_url, "PUBLISHER_URL"),
        live=_live(settings, "REDIS_PASSWORD_COMMAND"),
        connection_timeout=settings.redis_connection_timeout,
        write_timeout=settings.redis_write_timeout,
        maxlen=settings.redis_maxlen,
        wait_replicas=settings.redis_wait_replicas,
    )


def rabbit_options(settings: Settings) -> RabbitOptions:
    """PUBLISHER_URL and the RABBITMQ_* variables. Raises ConfigError without a URL or the extra."""
    with requires("rabbitmq", "PUBLISHER_TYPE=rabbitmq"):
        from relay.brokers.rabbitmq.options import RabbitOptions

    return RabbitOptions(
        message_format=_message_format(settings, cloudevents.AMQP),
        url=required(settings.publisher_url, "PUBLISHER_URL"),
        live=_live(settings, "RABBITMQ_PASSWORD_COMMAND"),
        exchange=settings.rabbitmq_exchange or "",
        mandatory=settings.rabbitmq_mandatory,
        publish_timeout=settings.rabbitmq_publish_timeout,
        connection_timeout=settings.rabbitmq_connection_timeout,
    )


def http_options(settings: Settings) -> HttpOptions:
    """PUBLISHER_URL and the HTTP_* variables. Raises ConfigError without the extra."""
    with requires("http", "PUBLISHER_TYPE=http"):
        from relay.brokers.http.options import HttpOptions

    secrets = "" if settings.http_secrets is None else settings.http_secrets.get_secret_value()
    return HttpOptions(
        message_format=_message_format(settings, cloudevents.HTTP),
        url=required(settings.publisher_url, "PUBLISHER_URL"),
        live=_live(settings),
        secrets=secrets.split(),
        live_secrets=LiveUrl(secrets) if origin_of(secrets) is not None else None,
        timeout=settings.http_timeout,
        connection_timeout=settings.http_connection_timeout,
        connections_per_host=settings.http_connections_per_host,
        permanent_statuses=settings.http_permanent_statuses or frozenset(),
        content_type=settings.http_content_type,
        allow_private=settings.http_allow_private,
        tls_ca=settings.http_tls_ca,
        tls_cert=settings.http_tls_cert,
        tls_key=settings.http_tls_key,
        circuit_pause=settings.publisher_connect_retry_interval,
    )


def http_endpoint(settings: Settings) -> Endpoint:
    """Where requests go. Raises ConfigError for a URL or secret that cannot be used."""
    options = http_options(settings)
    from relay.brokers.http.endpoints import read_endpoint

    return read_endpoint(options)


def aws_options(settings: Settings) -> AwsOptions:
    """PUBLISHER_URL, the AWS_* variables and those of SNS. Raises ConfigError without a URL or the extra."""
    kind: Literal["sqs", "sns"] = "sns" if settings.publisher_type == "sns" else "sqs"
    with requires("aws", f"PUBLISHER_TYPE={kind}"):
        from relay.brokers.aws.options import AwsOptions

    return AwsOptions(
        kind=kind,
        receipts=_wants_receipts(settings),
        url=required(settings.publisher_url, "PUBLISHER_URL"),
        publish_timeout=settings.aws_publish_timeout,
        connection_timeout=settings.aws_connection_timeout,
        name_replacement=settings.aws_name_replacement,
        topic_arn_prefix=settings.sns_topic_arn_prefix,
    )


_OPTIONS: dict[str, Callable[[Settings], Any]] = {
    "kafka": kafka_options,
    "nats": nats_options,
    "redis": redis_options,
    "rabbitmq": rabbit_options,
    "http": http_options,
    "sqs": aws_options,
    "sns": aws_options,
}


def options_of(settings: Settings) -> Any:  # noqa: ANN401 -- of each kind its own
    """The options of PUBLISHER_TYPE: what its publisher and its check take. Raises ConfigError."""
    kind = settings.publisher_type
    return _OPTIONS[kind](settings) if kind in _OPTIONS else _target(settings)


def connection_timeout(settings: Settings) -> float:
    """Seconds that connecting to PUBLISHER_TYPE may take; 0 where no variable says so."""
    kind = settings.publisher_type
    return getattr(options_of(settings), "connection_timeout", 0.0) if kind in _OPTIONS else 0.0


def build_publisher(settings: Settings, now: Callable[[], float] = time.time) -> Publisher:
    """Return the publisher of PUBLISHER_TYPE; imports its module alone, and so its client library alone.

    ``now`` is the time that it stamps and signs with, where it does.

    Raises ConfigError without the extra that brings the client library.
    """
    name = settings.publisher_type
    if name in kinds.UNSENT:
        return kinds.load(kinds.UNSENT[name])()  # type: ignore[no-any-return]
    kind = kinds.find(name)
    if kind is None:
        raise ConfigError(f"PUBLISHER_TYPE={name}: {kinds.of_others()[1].get(name, 'no such kind of destination')}")
    if kind.build is not None:
        return kind.build(_target(settings))
    with requires(kind.extra, f"PUBLISHER_TYPE={name}"):
        publisher = kind.load_publisher()
    options = options_of(settings)
    return publisher(replace(options, now=now) if hasattr(options, "now") else options)


def _target(settings: Settings) -> DestinationConfig:
    """What a destination of another package is built from."""
    return DestinationConfig(
        name=settings.publisher_name,
        url=required(settings.publisher_url, "PUBLISHER_URL"),
        variables=settings.of_others,
        in_order=settings.ordering == "key",
    )


def _message_format(settings: Settings, binding: cloudevents.Binding) -> MessageFormat | None:
    return message_format(settings.message_format, settings.cloudevents_source or "", binding)


def _live(settings: Settings, variable: str = "", ahead: float = 0.0) -> LiveUrl | None:
    """What says how PUBLISHER_URL is now; None where it stays. Raises ConfigError for a command with an open quote."""
    text = getattr(settings, variable.lower()) if variable else None
    try:
        command = None if text is None else PasswordCommand(variable, text)
    except ValueError:
        raise ConfigError(f"{variable}: a quote in it is not closed") from None
    url = required(settings.publisher_url, "PUBLISHER_URL")
    return LiveUrl(url, command, ahead) if command is not None or origin_of(url) is not None else None


def _wants_receipts(settings: Settings) -> bool:
    """Whether the delivery log records where the broker put a message: it does for deliveries, not for failures."""
    return settings.delivery_log_url is not None and settings.delivery_log_record == "all"
