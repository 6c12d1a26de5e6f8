"""The variables of each kind of destination. ``relay.settings.variables`` has all others."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from relay.settings.fields import VariableGroup, choice, instead_of, variable
from relay.settings.value_kinds import (
    Command,
    Count,
    CountOrZero,
    Duration,
    DurationOrZero,
    Flag,
    LargeCount,
    Patterns,
    Secret,
    SecretUrl,
    Size,
    Statuses,
    Text,
)

NAME_REPLACEMENTS = ("-", "_")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def _password_command(printed: str = "password") -> Any:  # noqa: ANN401 - as ``variable``
    return variable(
        None, f"Command that prints the {printed} of PUBLISHER_URL's user, as STORAGE_PASSWORD_COMMAND does."
    )


class Kafka(VariableGroup):
    """Kafka"""

    kafka_batch_size: Count | None = variable(
        None, "Maximum number of messages in one produce request.", shown="the client's own"
    )
    kafka_batch_bytes: Size = variable(
        "10485760", "Largest message the client accepts (`message.max.bytes`); the broker's own limit applies too."
    )
    kafka_batch_timeout: DurationOrZero = variable(
        "10ms", "Upper bound on lingering; a complete batch is sent at once."
    )
    kafka_compression: Annotated[Literal["none", "gzip", "snappy", "lz4", "zstd"], *choice(*COMPRESSIONS)] = variable(
        "snappy", "Compression of produce requests."
    )
    kafka_required_acks: Annotated[Literal["all", "one", "none"], *choice("all", "one", "none")] = variable(
        "all",
        "Which replicas must have a message before it counts as delivered. `one` works without idempotence; `none` is "
        "raised to `one`.",
    )
    kafka_timestamp: Annotated[Literal["now", "created_at"], *choice("now", "created_at")] = variable(
        "now",
        "The time of a message: of its offer, or `created_at`. One that the broker refuses is sent again with the time "
        "of the offer, and counted. For a minute its topic gets no time as far from the present, or nine tenths of "
        "that.",
    )
    kafka_write_timeout: Duration = variable("10s", "Longest wait for the acknowledgement of one produce request.")
    kafka_read_timeout: Duration = variable("10s", "Longest wait for any other response of a broker.")
    kafka_connection_timeout: Duration = variable("10s", "Longest wait for a connection.")
    kafka_password_command: Command | None = _password_command(
        "password, or with `sasl.mechanism=OAUTHBEARER` the token,"
    )
    kafka_max_attempts: Count = variable("5", "The client's own resends of one message.")
    kafka_transactions: Flag = variable(
        "false",
        "Exactly once for consumers that read committed messages, where every relay of the table has this setting "
        "(see docs/design/exactly-once.md).",
    )
    kafka_transactions_prefix: Text | None = variable(
        None,
        "Prefix of the ids of transactions and of the topic of proofs. The same for all relays of a table, another one "
        "for each table.",
        shown="database.schema.table",
    )
    kafka_async: Flag = variable(
        "false",
        "Accepted and ignored, with a warning: `true` would mark events DELIVERED before the broker has them.",
    )


class Nats(VariableGroup):
    """NATS"""

    nats_publish_timeout: Duration = variable("5s", "Longest wait for the stream's acknowledgement.")
    nats_connection_timeout: Duration = variable("10s", "Longest wait for a connection.")
    nats_password_command: Command | None = _password_command("password, or the token where it names no user,")


class Redis(VariableGroup):
    """Redis"""

    redis_connection_timeout: Duration = variable("5s", "Longest wait for a connection.")
    redis_password_command: Command | None = _password_command()
    redis_write_timeout: Duration = variable(
        "1s", "Longest silence of the server while replies are due and no bytes are on their way to it."
    )
    redis_maxlen: LargeCount | None = variable(
        None,
        "About how many entries a stream of REDIS_MAXLEN_STREAMS keeps. Older ones are removed, whether or not "
        "consumers have read them (see docs/reference/messages.md).",
        shown="unset: all of them",
    )
    redis_maxlen_streams: Patterns | None = variable(
        None,
        "The streams that REDIS_MAXLEN is for, patterns separated by commas: `orders.*,audit`; `*` stands for any "
        "characters.",
        shown="ALLOWED_EVENT_TYPES, or else none",
    )
    redis_wait_replicas: CountOrZero = variable(
        "0",
        "How many replicas must have an event before it counts as delivered. `0`: a failover can lose events that are "
        "DELIVERED (see docs/reference/messages.md).",
    )


class RabbitMQ(VariableGroup):
    """RabbitMQ"""

    rabbitmq_exchange: Text | None = variable(
        None,
        "The exchange that messages go to, with the event type as routing key.",
        shown="the default exchange",
    )
    rabbitmq_mandatory: Flag = variable(
        "true",
        "Whether the event of a message that no queue takes fails. `false`: it counts as delivered and is lost, unless "
        "the exchange keeps it (see docs/reference/messages.md).",
    )
    rabbitmq_publish_timeout: Duration = variable("10s", "Longest wait for the confirm of a message.")
    rabbitmq_connection_timeout: Duration = variable("10s", "Longest wait for a connection.")
    rabbitmq_password_command: Command | None = _password_command()


class Http(VariableGroup):
    """Webhooks (HTTP)"""

    http_endpoints_file: Text | None = variable(
        None,
        "TOML file of webhook endpoints, each a destination of its event types; `PUBLISHER_URL` takes the others "
        "(see docs/reference/messages.md).",
    )
    http_secrets: Secret | None = variable(
        None,
        "What requests to `PUBLISHER_URL` are signed with: `whsec_…` (HMAC) or `whsk_…` (Ed25519), several separated "
        "by blanks while a secret is rotated.",
    )
    http_secrets_file: Text | None = instead_of("HTTP_SECRETS", "secrets")
    http_timeout: Duration = variable("10s", "Longest wait for the answer to a request.")
    http_connection_timeout: Duration = variable(
        "5s", "Longest wait for a connection: name, TCP and TLS handshake together."
    )
    http_connections_per_host: Count = variable(
        "64",
        "Maximum number of connections of one endpoint; there are as many as are needed and the receiver takes.",
    )
    http_permanent_statuses: Statuses | None = variable(
        None,
        "Answers after which an event is DEAD at once, besides 410, 413, 414 and 431: statuses from 400 to 499, with "
        "commas between them. All others are tried again.",
        shown="none",
    )
    http_content_type: Text = variable("application/json", "Content-Type of every request.")
    http_allow_private: Flag = variable(
        "false",
        "Send to addresses that are not public, too: needed for receivers in a private network.",
    )
    http_egress_proxy: SecretUrl | None = variable(
        None, "Proxy for all requests, by CONNECT: `http://user:password@host:3128` (see docs/reference/messages.md)."
    )
    http_egress_proxy_file: Text | None = instead_of("HTTP_EGRESS_PROXY", "URL")
    http_tls_ca: Text | None = variable(
        None, "File of the authorities that receivers' certificates are checked by.", shown="the system's"
    )
    http_tls_cert: Text | None = variable(None, "File of the client's certificate, for mutual TLS.")
    http_tls_key: Text | None = variable(None, "File of that certificate's key, where it is apart.")


class Aws(VariableGroup):
    """SQS and SNS"""

    aws_publish_timeout: Duration = variable(
        "10s", "Longest silence of the service while a request is due and no bytes are on their way to it."
    )
    aws_connection_timeout: Duration = variable("10s", "Longest wait for a connection.")
    aws_name_replacement: Annotated[Literal["-", "_"], *choice(*NAME_REPLACEMENTS)] = variable(
        "-", "What replaces each `.`, `/` and `:` of an event type in the name of its queue or topic."
    )
    sns_topic_arn_prefix: Text | None = variable(
        None,
        "What precedes a topic's name in its ARN, `arn:aws:sns:eu-central-1:123456789012:`, for topics of another "
        "account, or where the relay cannot reach STS.",
        shown="the credentials' account, the URL's region",
    )


class DestinationVariables(Aws, Http, RabbitMQ, Redis, Nats, Kafka):
    """The variables of every kind; the group that is shown first is the last base."""
