"""From settings to the publisher of PUBLISHER_TYPE, and to the options of each kind of destination.

For the composition (``relay.app``), benchmarks and tests. Nothing connects here, and a broker's module is imported only
when that broker is built.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from relay.brokers import kinds
from relay.brokers.kinds import DestinationConfig, DestinationKind
from relay.core.errors import ConfigError
from relay.core.extras import requires
from relay.core.formats.choice import message_format
from relay.core.origins import LiveUrl, PasswordCommand
from relay.core.origins import of as origin_of
from relay.core.ports import Publisher
from relay.postgres.url import database_name
from relay.settings.settings import Settings

if TYPE_CHECKING:
    from relay.brokers.http.endpoints import Endpoint


def options_of(settings: Settings) -> Any:  # noqa: ANN401 -- of each kind its own
    """The options of PUBLISHER_TYPE: what its publisher and its check take. Raises ConfigError.

    A field is what ``_shared`` says of its name, or else the variable of the kind that ends with its name. A variable
    that is not set leaves the field's default, where it has one.
    """
    kind = _kind(settings)
    if kind.build is not None:
        return _target(settings)
    with requires(kind.extra, f"PUBLISHER_TYPE={kind.name}"):
        options = kinds.load(kind.options)
    shared = _shared(settings, kind)
    values = ((one, shared.get(one.name, _variable(settings, kind, one.name))) for one in fields(options))
    return options(**{one.name: value for one, value in values if value is not None or one.default is MISSING})


def _shared(settings: Settings, kind: DestinationKind) -> dict[str, Any]:
    """What options have besides the variables of their kind alone."""
    secrets = _variable(settings, kind, "secrets") or ""
    proxy = _variable(settings, kind, "egress_proxy") or ""
    form = None
    if kind.binding is not None:
        form = message_format(settings.message_format, settings.cloudevents_source or "", kind.binding)
    return {
        "kind": kind.name,
        "message_format": form,
        "in_order": settings.ordering == "key",
        "allowed_types": settings.allowed_event_types or (),
        # The delivery log records where the broker put a message, but for failures alone.
        "receipts": settings.delivery_log_url is not None and settings.delivery_log_record == "all",
        "url": settings.required("PUBLISHER_URL"),
        "live": _live(settings, kind),
        "live_secrets": LiveUrl(secrets) if origin_of(secrets) is not None else None,
        "live_proxy": LiveUrl(proxy) if origin_of(proxy) is not None else None,
        "relay_id": settings.relay_id,
        "lease_timeout": settings.lease_timeout,
        "transactions_prefix": settings.kafka_transactions_prefix or _outbox_name(settings),
    }


def _outbox_name(settings: Settings) -> str:
    """Database, schema and table, as far as they are known."""
    table, url = settings.storage_table_name, settings.storage_url
    database = "" if url is None else database_name(url.get_secret_value())
    return f"{database}.{table.schema or 'public'}.{table.table}"


def _variable(settings: Settings, kind: DestinationKind, name: str) -> Any:  # noqa: ANN401 -- of each variable its own
    """The kind's variable that ends with this name; None where it is not set, or there is none."""
    names = (f"{prefix.lower()}{name}" for prefix in kind.prefixes)
    value = next((getattr(settings, one) for one in names if hasattr(settings, one)), None)
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def connection_timeout(settings: Settings) -> float:
    """Seconds that connecting to PUBLISHER_TYPE may take; 0 where no variable says so."""
    if settings.publisher_type in kinds.UNSENT:
        return 0.0
    return getattr(options_of(settings), "connection_timeout", 0.0)


def http_endpoint(settings: Settings) -> Endpoint:
    """Where requests go. Raises ConfigError for a URL or secret that cannot be used."""
    options = options_of(settings)
    from relay.brokers.http.endpoints import read_endpoint

    return read_endpoint(options)


def build_publisher(settings: Settings, now: Callable[[], float] = time.time) -> Publisher:
    """Return the publisher of PUBLISHER_TYPE; imports its module alone, and so its client library alone.

    ``now`` is the time that it stamps and signs with, where it does.

    Raises ConfigError without the extra that brings the client library.
    """
    name = settings.publisher_type
    if name in kinds.UNSENT:
        return kinds.load(kinds.UNSENT[name])()  # type: ignore[no-any-return]
    kind = _kind(settings)
    if kind.build is not None:
        return kind.build(_target(settings))
    with requires(kind.extra, f"PUBLISHER_TYPE={name}"):
        publisher = kinds.load(kind.publisher)
    options = options_of(settings)
    return publisher(replace(options, now=now) if hasattr(options, "now") else options)  # type: ignore[no-any-return]


def _kind(settings: Settings) -> DestinationKind:
    name = settings.publisher_type
    if (kind := kinds.find(name)) is None:
        raise ConfigError(f"PUBLISHER_TYPE={name}: {kinds.of_others()[1].get(name, 'no such kind of destination')}")
    return kind


def _target(settings: Settings) -> DestinationConfig:
    """What a destination of another package is built from."""
    return DestinationConfig(
        name=settings.publisher_name,
        url=settings.required("PUBLISHER_URL"),
        variables=settings.of_others,
        in_order=settings.ordering == "key",
    )


def _live(settings: Settings, kind: DestinationKind) -> LiveUrl | None:
    """What says how PUBLISHER_URL is now; None where it stays. Raises ConfigError for a command with an open quote."""
    text, variable = _variable(settings, kind, "password_command"), f"{kind.prefixes[0]}PASSWORD_COMMAND"
    try:
        command = None if text is None else PasswordCommand(variable, text)
    except ValueError:
        raise ConfigError(f"{variable}: a quote in it is not closed") from None
    url = settings.required("PUBLISHER_URL")
    return LiveUrl(url, command, kind.asked_ahead) if command is not None or origin_of(url) is not None else None
