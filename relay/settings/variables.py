"""Every environment variable of the relay: its name, kind, default and meaning, in one table.

``relay --help``, ``docs/configuration.md`` and the checks all come from here. A field's name is its variable's in
lower case; times are seconds, sizes are bytes. Defaults are written as a user would write them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from relay.postgres.sql import DEFAULT_LOG_SCHEMA, DEFAULT_TABLE
from relay.settings.address import DEFAULT_CONSOLE_PORT, DEFAULT_SERVER_PORT
from relay.settings.kinds import (
    ConsoleRoles,
    Count,
    Duration,
    DurationOrZero,
    Flag,
    Issuer,
    Listen,
    Networks,
    PostgresUrl,
    Prefix,
    Schema,
    Secret,
    SecretUrl,
    Share,
    Size,
    Table,
    Text,
    WebOrigin,
    kind,
    words,
)
from relay.settings.schemes import broker_of

PUBLISHERS = ("kafka", "nats", "redis", "rabbitmq", "stdout", "null")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def _choice(*allowed: str) -> tuple[Any, ...]:
    return kind(", ".join(allowed), words(*allowed))


def _variable(default: object, meaning: str, *, shown: str = "") -> Any:  # noqa: ANN401 - as Field itself
    """A field with its default and meaning; ``shown`` describes a default that is not a plain text."""
    extra: dict[str, JsonValue] = {"shown": shown or ("" if default is None else str(default))}
    if callable(default):
        factory: Callable[..., Any] = default
        return Field(default_factory=factory, description=meaning, json_schema_extra=extra)
    return Field(default=default, description=meaning, json_schema_extra=extra)


def _instead_of(name: str, value: str) -> Any:  # noqa: ANN401 - as ``_variable``
    """The variable for a file that holds the value of variable ``name``: its URL, token or key."""
    return _variable(None, f"File that holds the {value}, instead of {name}.", shown="unset")


def _eight_batches(known: dict[str, Any]) -> int:
    return 8 * int(known["batch_size"])


def _implied_type(known: dict[str, Any]) -> str:
    """By the scheme of PUBLISHER_URL, which stands before PUBLISHER_TYPE for this; ``rules`` refuses other schemes."""
    url = known.get("publisher_url")
    return broker_of(url.get_secret_value()) or "stdout" if url is not None else "stdout"


def _publisher_type(known: dict[str, Any]) -> str:
    return str(known["publisher_type"])


def _host_name() -> str:
    return socket.gethostname()


class _Group(BaseModel):
    # defer_build: of these classes only ``Variables`` is ever validated. Building a validator takes 10 to 20 ms of CPU.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True, defer_build=True
    )


class Storage(_Group):
    """Storage"""

    storage_type: Annotated[Literal["postgres"], *_choice("postgres")] = _variable(
        "postgres", "Kind of database the outbox table lives in."
    )
    storage_url: PostgresUrl | None = _variable(
        None, "The database: `postgres://user:password@host:5432/database?sslmode=require`.", shown="required"
    )
    storage_url_file: Text | None = _instead_of("STORAGE_URL", "URL")
    storage_table_name: Table = _variable(
        DEFAULT_TABLE, "The outbox table: `table` or `schema.table`, taken exactly as written."
    )


class Publishing(_Group):
    """Publisher"""

    publisher_url: SecretUrl | None = _variable(
        None,
        "The broker: `host:9092,host2:9092` or `kafka://…`; `nats://…`; `redis://…`, `redis+sentinel://…` or "
        "`redis+cluster://…`; `amqp://…` (see messages.md).",
        shown="required for kafka, nats, redis and rabbitmq",
    )
    publisher_url_file: Text | None = _instead_of("PUBLISHER_URL", "URL")
    publisher_type: Annotated[
        Literal["kafka", "nats", "redis", "rabbitmq", "stdout", "null"], *_choice(*PUBLISHERS)
    ] = _variable(
        _implied_type,
        "Where events go. `stdout` prints one JSON object an event, `null` drops them. A `PUBLISHER_URL` whose scheme "
        "implies no type (`host:9092`) needs it.",
        shown="by the scheme of `PUBLISHER_URL`; without both `stdout`",
    )
    publisher_connect_retry_interval: Duration = _variable(
        "5s", "Time between two attempts to reach a broker that does not answer."
    )
    publisher_name: Text = _variable(
        _publisher_type, "Name of this destination in the delivery log.", shown="the PUBLISHER_TYPE"
    )


class Relaying(_Group):
    """Relay"""

    poll_interval: Duration = _variable("500ms", "Longest wait after an empty claim.")
    wake_up: Flag = _variable(
        "false", "Listen for inserts too (see operations.md); needs the wake-up extension and a session."
    )
    batch_size: Count = _variable("100", "Maximum number of events in one claim.")
    batch_bytes: Size = _variable("64MiB", "Maximum bytes of one claim; a single larger event is still claimed, alone.")
    max_in_flight: Count = _variable(
        _eight_batches,
        "Maximum number of events claimed and not settled; a quarter is for destinations that answer.",
        shown="8 x BATCH_SIZE",
    )
    lease_timeout: Duration = _variable(
        "3m", "How long a claimed event belongs to this relay; renewed while the event is in flight."
    )
    reap_batch_size: Count = _variable("100", "Maximum number of expired leases that one statement reclaims.")
    health_check_interval: Duration = _variable("5s", "Time between two probes of database and broker.")
    shutdown_timeout: DurationOrZero = _variable(
        "8s", "How long SIGTERM waits for events in flight; container engines kill after 10 s."
    )
    relay_id: Text = _variable(
        _host_name, "Name of this relay in `locked_by`, logs and metrics.", shown="the host name"
    )
    fleet_allow_mixed: Flag = _variable(
        "false",
        "Start although another relay of the table delivers to another destination; needs the extension fleet to "
        "matter (see operations.md).",
    )
    on_delivered: Annotated[Literal["keep", "delete"], *_choice("keep", "delete")] = _variable(
        "keep",
        "`keep`: a delivered event stays in the table as DELIVERED until it is pruned; `delete`: its row is deleted "
        "(see operations.md).",
    )
    ordering: Annotated[Literal["none", "key"], *_choice("none", "key")] = _variable(
        "none", "`key`: publish the events of one `partition_key` strictly one after the other (see ordering.md)."
    )
    ordering_on_dead: Annotated[Literal["skip", "block"], *_choice("skip", "block")] = _variable(
        "skip",
        "With `ORDERING=key`: continue after a dead event of the key, or hold the key until that event is replayed.",
    )


class Retrying(_Group):
    """Retries"""

    retry_max_attempts: Count = _variable("25", "Failed attempts after which an event is DEAD.")
    retry_base_delay: Duration = _variable("1s", "Delay after the first failed attempt; doubles with each further one.")
    retry_max_delay: Duration = _variable("24h", "Longest delay, without jitter.")
    retry_jitter: Share = _variable("0.15", "Largest random share added to a delay.")


class Kafka(_Group):
    """Kafka"""

    kafka_batch_size: Count | None = _variable(
        None, "Maximum number of messages in one produce request.", shown="the client's own"
    )
    kafka_batch_bytes: Size = _variable(
        "10485760", "Largest message the client accepts (`message.max.bytes`); the broker's own limit applies too."
    )
    kafka_batch_timeout: DurationOrZero = _variable(
        "10ms", "Upper bound on lingering; a complete batch is sent at once."
    )
    kafka_compression: Annotated[Literal["none", "gzip", "snappy", "lz4", "zstd"], *_choice(*COMPRESSIONS)] = _variable(
        "snappy", "Compression of produce requests."
    )
    kafka_required_acks: Annotated[Literal["all", "one", "none"], *_choice("all", "one", "none")] = _variable(
        "all",
        "Which replicas must have a message before it counts as delivered. `one` works without idempotence, "
        "with a warning; `none` would lose events: it is raised to `one`, with a warning.",
    )
    kafka_write_timeout: Duration = _variable("10s", "Longest wait for the acknowledgement of one produce request.")
    kafka_read_timeout: Duration = _variable("10s", "Longest wait for any other response of a broker.")
    kafka_connection_timeout: Duration = _variable("10s", "Longest wait for a connection.")
    kafka_max_attempts: Count = _variable("5", "The client's own resends of one message.")
    kafka_async: Flag = _variable(
        "false",
        "Accepted and ignored, with a warning: `true` would mark events DELIVERED before the broker has them.",
    )


class Nats(_Group):
    """NATS"""

    nats_publish_timeout: Duration = _variable("5s", "Longest wait for the stream's acknowledgement.")
    nats_connection_timeout: Duration = _variable("10s", "Longest wait for a connection.")


class Redis(_Group):
    """Redis"""

    redis_connection_timeout: Duration = _variable("5s", "Longest wait for a connection.")
    redis_write_timeout: Duration = _variable(
        "1s", "Longest silence of the server while replies are due and no bytes are on their way to it."
    )


class RabbitMQ(_Group):
    """RabbitMQ"""

    rabbitmq_exchange: Text | None = _variable(
        None,
        "The exchange that messages go to, with the event type as routing key. The default exchange routes each to the "
        "queue of that name.",
        shown="the default exchange",
    )
    rabbitmq_publish_timeout: Duration = _variable("10s", "Longest wait for the confirm of a message.")
    rabbitmq_connection_timeout: Duration = _variable("10s", "Longest wait for a connection.")


class Serving(_Group):
    """Server and logs"""

    server_port: Listen = _variable(
        DEFAULT_SERVER_PORT,
        "Address of the HTTP endpoints: `:8080` (all interfaces), `127.0.0.1:8080` or `[::1]:8080`.",
    )
    environment: Annotated[Literal["production", "development"], *_choice("production", "development")] = _variable(
        "production", "`production`: logs are JSON lines; `development`: logs are readable lines."
    )


class Logging(_Group):
    """Delivery log"""

    delivery_log_url: SecretUrl | None = _variable(
        None, "Database that records every attempt (PostgreSQL or ClickHouse); unset: no delivery log.", shown="unset"
    )
    delivery_log_url_file: Text | None = _instead_of("DELIVERY_LOG_URL", "URL")
    delivery_log_batch_size: Count = _variable("1000", "Maximum number of entries that one statement writes.")
    delivery_log_flush_interval: Duration = _variable("1s", "Longest time an entry waits to be written.")
    delivery_log_record: Annotated[Literal["all", "failed"], *_choice("all", "failed")] = _variable(
        "all", "Which attempts are recorded."
    )
    delivery_log_tenant_header: Text = _variable("tenant_id", "Header that names an event's tenant.")
    delivery_log_schema: Schema = _variable(DEFAULT_LOG_SCHEMA, "PostgreSQL: schema of the log's tables.")
    delivery_log_prefix: Prefix = _variable(
        "", "ClickHouse: prefix of the log's table names, for several logs in one database.", shown="none"
    )
    delivery_log_retention_days: Count | None = _variable(
        None,
        "Days to retain entries. PostgreSQL: older months are dropped once an hour by a relay whose user owns the log, "
        "else by `relay-cli log maintain`; late entries of them are quarantined. ClickHouse: the TTL of the tables.",
        shown="unset",
    )


class Storing(_Group):
    """Event store"""

    event_store_schema: Schema | None = _variable(
        None,
        "Schema of an event store in STORAGE_URL's database whose subscriptions `/metrics` shows; "
        "the relay's user needs the access `subscriber`.",
        shown="unset",
    )


class Admitting(_Group):
    """Console: who may use it"""

    console_port: Listen = _variable(
        DEFAULT_CONSOLE_PORT,
        "Address of the console. Any but a loopback address (127.0.0.1, ::1, localhost) needs a way to log in.",
    )
    console_url: WebOrigin | None = _variable(
        None,
        "How browsers reach the console, without a path: `https://outbox.example.com`. Requests for another host are "
        "refused; OIDC on any but a loopback address needs it.",
        shown="unset",
    )
    console_tokens_file: Text | None = _variable(
        None,
        "File of lines `role name hash`, one for each token; `relay-cli access token` makes a line.",
        shown="unset",
    )
    console_users_file: Text | None = _variable(
        None,
        "File of lines `role name hash`, one for each user with a password; `relay-cli access password` makes a line.",
        shown="unset",
    )
    api_token: Secret | None = _variable(
        None,
        "Bearer token of `/api/*` with the role reader, at least 32 characters where other machines reach the console. "
        "The relay serves no such path and warns.",
        shown="unset",
    )
    api_token_file: Text | None = _instead_of("API_TOKEN", "token")
    console_secret: Secret | None = _variable(
        None,
        "Key that signs the cookies of browsers, at least 32 characters; unset: a random one, and logins end with a "
        "restart of the console.",
        shown="unset",
    )
    console_secret_file: Text | None = _instead_of("CONSOLE_SECRET", "key")
    console_login_lifetime: Duration = _variable("8h", "How long a login of a browser lasts.")
    console_trusted_proxies: Networks | None = _variable(
        None,
        "Addresses of proxies, such as `10.0.0.7, 10.1.0.0/16`, whose `X-Forwarded-For` names the client; the limit of "
        "logins counts by client.",
        shown="unset: none",
    )
    console_oidc_issuer: Issuer | None = _variable(
        None, "OpenID Connect: the provider's issuer, `https://login.example.com/realms/ops`.", shown="unset"
    )
    console_oidc_client_id: Text | None = _variable(None, "OpenID Connect: the console's client id.", shown="unset")
    console_oidc_client_secret: Secret | None = _variable(
        None, "OpenID Connect: the secret of that client.", shown="unset"
    )
    console_oidc_client_secret_file: Text | None = _instead_of("CONSOLE_OIDC_CLIENT_SECRET", "secret")
    console_oidc_scope: Text = _variable(
        "openid profile email", "OpenID Connect: scopes to request; some providers need another one to name groups."
    )
    console_oidc_name_claim: Text = _variable(
        "preferred_username",
        "OpenID Connect: claim that names the user in the console and its audit; `sub` where users choose their names.",
    )
    console_oidc_roles_claim: Text = _variable(
        "roles",
        "OpenID Connect: claim that holds a user's roles or groups, a text or a list; dots lead into objects, as in "
        "`realm_access.roles`.",
    )
    console_oidc_roles: ConsoleRoles = _variable(
        '{"reader": "reader", "operator": "operator", "admin": "admin"}',
        "OpenID Connect: the role for each value of that claim, as JSON; of several the highest counts.",
    )
    console_oidc_other_role: Annotated[Literal["none", "reader"], *_choice("none", "reader")] = _variable(
        "none", "OpenID Connect: the role of users whom CONSOLE_OIDC_ROLES does not name; `none` refuses them."
    )


GROUPS: tuple[type[_Group], ...] = (
    Storage,
    Publishing,
    Relaying,
    Retrying,
    Kafka,
    Nats,
    Redis,
    RabbitMQ,
    Serving,
    Logging,
    Storing,
    Admitting,
)
"""In the order in which they are shown; a group's docstring is its heading."""


class Variables(
    Admitting, Storing, Logging, Serving, RabbitMQ, Redis, Nats, Kafka, Retrying, Relaying, Publishing, Storage
):
    """All of them in one."""


NAMES: tuple[str, ...] = tuple(field.upper() for group in GROUPS for field in group.model_fields)
"""Every variable by its name in the environment, but ``OTEL_*``, which belong to the OpenTelemetry standard."""
