"""What the RabbitMQ publisher can be configured with, and what PUBLISHER_URL says."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from relay.brokers.login import BrokerOptions
from relay.brokers.server_address import ServerAddress, read_addresses
from relay.brokers.tls import TLS_FILES, client_context
from relay.core.errors import ConfigError

_URL: Final = re.compile(
    r"(?P<scheme>amqps?)://(?:(?P<login>[^@/?#]*)@)?(?P<hosts>[^@/?#]+)(?:/(?P<vhost>[^/?#]*))?(?:\?(?P<query>[^#]*))?",
    re.IGNORECASE,
)
_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_LONGEST_NAME: Final = 255  # bytes of a short string
_SHAPE: Final = (
    "write amqp://user:password@host:5672,host2:5672/vhost or amqps://…, and percent-encode special characters of "
    "user, password and vhost (@ is %40, / is %2F, ? is %3F, # is %23)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitOptions(BrokerOptions):
    """Times are seconds.

    ``url`` is ``amqp://user:password@host:5672,host2:5672/vhost``; ``amqps://`` demands TLS.
    User, password and vhost are percent-decoded; without a login it is guest's, without a vhost ``/``. The query may
    name files: ``tls_ca``, ``tls_cert`` and ``tls_key``; they are read again for every connection.
    """

    exchange: str = ""
    """Where messages go, with the event type as routing key; empty for the default exchange, which routes to the queue
    of that name.
    """
    mandatory: bool
    """Whether the server returns a message that no queue takes, instead of confirming and dropping it."""
    publish_timeout: float
    """From the offer of a message to its confirm."""
    connection_timeout: float
    """For a connection to any of the hosts, TLS and login included."""
    max_pending: int = 4000
    """Most unconfirmed messages; beyond that ``publish`` waits."""


@dataclass(frozen=True, slots=True)
class RabbitTarget:
    """What PUBLISHER_URL says."""

    addresses: tuple[ServerAddress, ...]
    user: str
    password: str = field(repr=False)
    vhost: str
    tls: ssl.SSLContext | None

    def __str__(self) -> str:
        """The addresses, without a login."""
        return ", ".join(map(str, self.addresses))


def read_target(options: RabbitOptions) -> RabbitTarget:
    """Read the URL and the current content of the files it names.

    Raises ConfigError, without any part of a login, for an invalid one.
    """
    if len(options.exchange.encode()) > _LONGEST_NAME:
        raise ConfigError(f"RABBITMQ_EXCHANGE is longer than {_LONGEST_NAME} bytes, the most that AMQP can name")
    if not (options.mandatory or options.exchange):
        raise ConfigError(
            "RABBITMQ_MANDATORY=false is for an exchange that keeps messages itself; set RABBITMQ_EXCHANGE. With the "
            "default exchange each event without a queue would be lost, and count as delivered"
        )
    match = _URL.fullmatch(options.url.strip())
    if match is None:
        raise ConfigError(f"PUBLISHER_URL is not usable for RabbitMQ: {_SHAPE}")
    scheme = match["scheme"].lower()
    user, _, password = (match["login"] or "guest:guest").partition(":")
    return RabbitTarget(
        addresses=read_addresses(match["hosts"], _PORTS[scheme], f"PUBLISHER_URL names no RabbitMQ node; {_SHAPE}"),
        user=unquote(user),
        password=unquote(password),
        vhost=unquote(match["vhost"] or "") or "/",
        tls=_tls(scheme, match["query"] or ""),
    )


def _tls(scheme: str, query: str) -> ssl.SSLContext | None:
    """No message shows a part of the query where it may be the rest of a password."""
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(parameters.keys() - TLS_FILES):
        shown = "a parameter" if "@" in query else repr(unknown[0])
        known = ", ".join(sorted(TLS_FILES))
        raise ConfigError(f"PUBLISHER_URL: {shown} is not known; RabbitMQ takes {known}; {_SHAPE}")
    if scheme == "amqps":
        return client_context(parameters)
    if parameters:
        raise ConfigError(f"PUBLISHER_URL: {min(parameters)} is for TLS; write amqps://")
    return None
