"""Every environment variable of the relay: its name, kind, default and meaning, in one table.

``relay --help``, ``docs/reference/configuration.md`` and the checks all come from here. A field's name is its
variable's in lower case; times are seconds, sizes are bytes. Defaults are written as a user would write them.
"""

from __future__ import annotations

import socket
from typing import Annotated, Any, Literal

from relay.brokers import kinds
from relay.core.formats import choice as formats
from relay.postgres.sql import DEFAULT_LOG_SCHEMA, DEFAULT_TABLE
from relay.settings.address import DEFAULT_CONSOLE_PORT, DEFAULT_SERVER_PORT
from relay.settings.destinations import DestinationVariables
from relay.settings.fields import VariableGroup, choice, instead_of, variable
from relay.settings.value_kinds import (
    Command,
    ConsoleRoles,
    Count,
    Duration,
    DurationOrZero,
    Flag,
    Issuer,
    Listen,
    LogUrl,
    Networks,
    Patterns,
    PostgresUrl,
    Prefix,
    Rate,
    Schema,
    Secret,
    SecretUrl,
    Share,
    Size,
    Table,
    Text,
    UriReference,
    WebOrigin,
    kind,
    words,
)

_WITH_URL = [one.name for one in kinds.KINDS.values() if not one.url_optional]


def _eight_batches(known: dict[str, Any]) -> int:
    return 8 * int(known["batch_size"])


def _implied_type(known: dict[str, Any]) -> str:
    """By the scheme of PUBLISHER_URL, which stands before PUBLISHER_TYPE for this; ``combinations`` refuses others."""
    url = known.get("publisher_url")
    implied = kinds.of_url(url.get_secret_value()) if url is not None else None
    return implied.name if implied is not None else "stdout"


def _read_type(text: str) -> str:
    """The name of a kind of destination, of this project or of another package."""
    word = text.strip().lower()
    if word in kinds.UNSENT or kinds.find(word) is not None:
        return word
    if reason := kinds.of_others()[1].get(word):
        raise ValueError(reason)
    return words(*kinds.names(), *kinds.UNSENT)(text)


class Storage(VariableGroup):
    """Storage"""

    storage_type: Annotated[Literal["postgres"], *choice("postgres")] = variable(
        "postgres", "Kind of database the outbox table lives in."
    )
    storage_url: PostgresUrl | None = variable(
        None, "The database: `postgres://user:password@host:5432/database?sslmode=verify-full`.", shown="required"
    )
    storage_url_file: Text | None = instead_of("STORAGE_URL", "URL")
    storage_password_command: Command | None = variable(
        None,
        "Command whose first line is the password; its second, if any, until when it is good (RFC 3339, else 60 s). "
        "10 s at most; run again when that is past, and when the password was refused.",
    )
    storage_table_name: Table = variable(
        DEFAULT_TABLE, "The outbox table: `table` or `schema.table`, taken exactly as written."
    )
    storage_prepared: Annotated[Literal["auto", "on", "off"], *choice("auto", "on", "off")] = variable(
        "auto",
        "Whether statements are prepared on the server. `auto`: where no pooler stands between; `on`: claims also "
        "behind a pooler that keeps prepared statements (see docs/operate/sizing.md).",
    )


class Publishing(VariableGroup):
    """Publisher"""

    publisher_url: SecretUrl | None = variable(
        None,
        f"Where events go: {kinds.listed([f'`{one.schemes[0]}://…`' for one in kinds.KINDS.values()])}; with "
        "PUBLISHER_TYPE also `host:9092,host2:9092` (see docs/reference/messages.md).",
        shown=f"required for {', '.join(_WITH_URL[:-1])} and {_WITH_URL[-1]}",
    )
    publisher_url_file: Text | None = instead_of("PUBLISHER_URL", "URL")
    publisher_type: Annotated[str, *kind(", ".join((*kinds.KINDS, *kinds.UNSENT)), _read_type)] = variable(
        _implied_type,
        "`stdout` prints one JSON object an event, `null` drops them. A `PUBLISHER_URL` whose scheme implies no type "
        "(`host:9092`) needs it.",
        shown="by the scheme of `PUBLISHER_URL`; without both `stdout`",
    )
    message_format: Annotated[
        Literal["openoutbox", "cloudevents", "cloudevents-structured", "debezium", "debezium-server"],
        *choice(*formats.NAMES),
    ] = variable(
        "openoutbox",
        "What a message looks like (see docs/reference/message-formats.md).",
    )
    cloudevents_source: UriReference | None = variable(
        None,
        "The attribute `source`: a URI reference that names this outbox, for example `/shop/orders`.",
        shown="required for cloudevents",
    )
    publisher_connect_retry_interval: Duration = variable(
        "5s", "Time between two attempts to reach a broker that does not answer."
    )
    publisher_rate: Rate | None = variable(
        None,
        "Most events a second of each destination, and each relay. Others go on meanwhile.",
        shown="no bound",
    )
    publisher_name: Text = variable(
        lambda known: str(known["publisher_type"]),
        "Name of this destination in the delivery log.",
        shown="the PUBLISHER_TYPE",
    )


class Routing(VariableGroup):
    """Routing"""

    allowed_event_types: Patterns | None = variable(
        None,
        "The event types that are sent, patterns separated by commas: `orders.*,user.signup`; all others are `DEAD` "
        "with `NOT_ALLOWED` (see docs/operate/trust.md). A name that steers a broker, as `$KV.…` of NATS, needs a "
        "pattern that begins so.",
        shown="unset: all but names that steer a broker",
    )
    route_prefix: Text = variable(
        "", "Prefix of the name of every destination (see docs/guide/routing.md).", shown="none"
    )
    routes_file: Text | None = variable(
        None, "TOML file of routes from event types to destinations (see docs/guide/routing.md)."
    )
    destinations_file: Text | None = variable(
        None,
        "TOML file of several destinations, instead of PUBLISHER_URL and PUBLISHER_TYPE (see docs/guide/routing.md).",
    )


class Relaying(VariableGroup):
    """Relay"""

    poll_interval: Duration = variable("500ms", "Longest wait after an empty claim.")
    wake_up: Flag = variable(
        "false", "Listen for inserts too (see docs/operate/sizing.md); needs the wake-up extension and a session."
    )
    batch_size: Count = variable("100", "Maximum number of events in one claim.")
    batch_bytes: Size = variable("64MiB", "Maximum bytes of one claim; a single larger event is still claimed, alone.")
    max_in_flight: Count = variable(
        _eight_batches,
        "Maximum number of events claimed and not settled; a quarter is for destinations that answer.",
        shown="8 x BATCH_SIZE",
    )
    lease_timeout: Duration = variable(
        "3m", "How long a claimed event belongs to this relay; renewed while the event is in flight."
    )
    reap_batch_size: Count = variable("100", "Maximum number of expired leases that one statement reclaims.")
    health_check_interval: Duration = variable("5s", "Time between two probes of database and broker.")
    shutdown_timeout: DurationOrZero = variable(
        "8s", "How long SIGTERM waits for events in flight; container engines kill after 10 s."
    )
    relay_id: Text = variable(
        socket.gethostname, "Name of this relay in `locked_by`, logs and metrics.", shown="the host name"
    )
    fleet_allow_mixed: Flag = variable(
        "false",
        "Start although another relay of the table delivers to another destination (see docs/operate/running.md).",
    )
    on_delivered: Annotated[Literal["keep", "delete"], *choice("keep", "delete")] = variable(
        "keep",
        "`keep`: a delivered event stays as DELIVERED until it is pruned; `delete`: its row is deleted "
        "(see docs/operate/running.md).",
    )
    ordering: Annotated[Literal["none", "key"], *choice("none", "key")] = variable(
        "none",
        "`key`: publish the events of one `partition_key` strictly one after the other (see docs/guide/ordering.md).",
    )
    ordering_on_dead: Annotated[Literal["skip", "block"], *choice("skip", "block")] = variable(
        "skip",
        "With `ORDERING=key`: continue after a dead event of the key, or hold the key until that event is replayed.",
    )


class Retrying(VariableGroup):
    """Retries"""

    retry_max_attempts: Count = variable("25", "Failed attempts after which an event is DEAD.")
    retry_base_delay: Duration = variable("1s", "Delay after the first failed attempt; doubles with each further one.")
    retry_max_delay: Duration = variable("24h", "Longest delay, without jitter.")
    retry_jitter: Share = variable("0.15", "Largest random share added to a delay.")


class Serving(VariableGroup):
    """Server and logs"""

    server_port: Listen = variable(
        DEFAULT_SERVER_PORT,
        "Address of the HTTP endpoints: `:8080` (all interfaces), `127.0.0.1:8080` or `[::1]:8080`.",
    )
    environment: Annotated[Literal["production", "development"], *choice("production", "development")] = variable(
        "production", "`production`: logs are JSON lines; `development`: logs are readable lines."
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], *choice("debug", "info", "warning", "error")] = (
        variable("info", "The least level of a line that is logged. `debug` is for the relay's own lines alone.")
    )


class Logging(VariableGroup):
    """Delivery log"""

    delivery_log_url: LogUrl | None = variable(
        None, "Database that records every attempt (PostgreSQL or ClickHouse); unset: no delivery log."
    )
    delivery_log_url_file: Text | None = instead_of("DELIVERY_LOG_URL", "URL")
    delivery_log_batch_size: Count = variable("1000", "Maximum number of entries that one statement writes.")
    delivery_log_flush_interval: Duration = variable("1s", "Longest time an entry waits to be written.")
    delivery_log_record: Annotated[Literal["all", "failed"], *choice("all", "failed")] = variable(
        "all", "Which attempts are recorded."
    )
    delivery_log_tenant_header: Text = variable("tenant_id", "Header that names an event's tenant.")
    delivery_log_schema: Schema = variable(DEFAULT_LOG_SCHEMA, "PostgreSQL: schema of the log's tables.")
    delivery_log_prefix: Prefix = variable(
        "", "ClickHouse: prefix of the log's table names, for several logs in one database.", shown="none"
    )
    delivery_log_retention_days: Count | None = variable(
        None,
        "Days to retain entries. PostgreSQL: older months are dropped once an hour by a relay whose user owns the log, "
        "else by `relay-cli log maintain`; late entries of them are quarantined. ClickHouse: the TTL of the tables.",
    )


class Storing(VariableGroup):
    """Event store"""

    event_store_schema: Schema | None = variable(
        None,
        "Schema of an event store in STORAGE_URL's database whose subscriptions `/metrics` shows; "
        "the relay's user needs the access `subscriber`.",
    )


class Admitting(VariableGroup):
    """Console: who may use it"""

    console_port: Listen = variable(
        DEFAULT_CONSOLE_PORT,
        "Address of the console. Any but a loopback address (127.0.0.1, ::1, localhost) needs a way to log in.",
    )
    console_url: WebOrigin | None = variable(
        None,
        "How browsers reach the console, without a path: `https://outbox.example.com`. Requests for another host are "
        "refused; OIDC on any but a loopback address needs it.",
    )
    console_tokens_file: Text | None = variable(
        None, "File of lines `role name hash`, one for each token; `relay-cli access token` prints a line."
    )
    api_token: Secret | None = variable(
        None,
        "Bearer token of `/api/*` with the role reader, at least 32 characters where other machines reach the console. "
        "The relay serves no such path and warns.",
    )
    api_token_file: Text | None = instead_of("API_TOKEN", "token")
    console_secret: Secret | None = variable(
        None,
        "Key that signs the cookies of browsers, at least 32 characters; unset: a random one, and logins end with a "
        "restart of the console.",
    )
    console_secret_file: Text | None = instead_of("CONSOLE_SECRET", "key")
    console_login_lifetime: Duration = variable("8h", "How long a login of a browser lasts.")
    console_trusted_proxies: Networks | None = variable(
        None,
        "Addresses of proxies, such as `10.0.0.7, 10.1.0.0/16`, whose `X-Forwarded-For` names the client; the limit of "
        "logins counts by client.",
        shown="unset: none",
    )
    console_oidc_issuer: Issuer | None = variable(
        None, "OpenID Connect: the provider's issuer, `https://login.example.com/realms/ops`."
    )
    console_oidc_client_id: Text | None = variable(None, "OpenID Connect: the console's client id.")
    console_oidc_client_secret: Secret | None = variable(None, "OpenID Connect: the secret of that client.")
    console_oidc_client_secret_file: Text | None = instead_of("CONSOLE_OIDC_CLIENT_SECRET", "secret")
    console_oidc_scope: Text = variable(
        "openid profile email", "OpenID Connect: scopes to request; some providers need another one to name groups."
    )
    console_oidc_name_claim: Text = variable(
        "preferred_username",
        "OpenID Connect: claim that names the user in the console and its audit; `sub` where users choose their names.",
    )
    console_oidc_roles_claim: Text = variable(
        "roles",
        "OpenID Connect: claim that holds a user's roles or groups, a string or a list; dots name nested members: "
        "`realm_access.roles`.",
    )
    console_oidc_roles: ConsoleRoles = variable(
        '{"reader": "reader", "operator": "operator", "admin": "admin"}',
        "OpenID Connect: the role for each value of that claim, as JSON; of several the highest counts.",
    )
    console_oidc_other_role: Annotated[Literal["none", "reader"], *choice("none", "reader")] = variable(
        "none", "OpenID Connect: the role of users that CONSOLE_OIDC_ROLES does not name; `none` refuses them."
    )


class Variables(
    Admitting,
    Storing,
    Logging,
    Serving,
    DestinationVariables,
    Retrying,
    Relaying,
    Routing,
    Publishing,
    Storage,
):
    """All of them in one, the group that is shown first as the last base."""


GROUPS: tuple[type[VariableGroup], ...] = tuple(
    group
    for base in Variables.__bases__[::-1]
    for group in (DestinationVariables.__bases__[::-1] if base is DestinationVariables else (base,))
)
"""In the order in which they are shown; a group's docstring is its heading."""
NAMES: tuple[str, ...] = tuple(field.upper() for group in GROUPS for field in group.model_fields)
"""Every variable by its name in the environment, but ``OTEL_*``, which belong to the OpenTelemetry standard."""
