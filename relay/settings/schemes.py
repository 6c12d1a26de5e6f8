"""What the scheme of a URL says about the server behind it."""

from __future__ import annotations

from typing import Final

BROKERS: Final = ("kafka", "nats", "redis", "rabbitmq", "http", "sqs", "sns")
"""The values of PUBLISHER_TYPE that use PUBLISHER_URL."""

_OWNERS: Final = {
    "kafka": "kafka",
    "nats": "nats",
    "tls": "nats",
    "redis": "redis",
    "rediss": "redis",
    "redis+sentinel": "redis",
    "rediss+sentinel": "redis",
    "redis+cluster": "redis",
    "rediss+cluster": "redis",
    "unix": "redis",
    "postgres": "a database",
    "postgresql": "a database",
    "amqp": "rabbitmq",
    "amqps": "rabbitmq",
    "http": "http",
    "https": "http",
    "sqs": "sqs",
    "sns": "sns",
}


def owner_of(url: str) -> str | None:
    """The kind of server that the URL's scheme belongs to; None without a scheme, or for an unknown one."""
    scheme, separator, _ = url.strip().partition("://")
    return _OWNERS.get(scheme.lower()) if separator else None


def broker_of(url: str) -> str | None:
    """The PUBLISHER_TYPE that the URL's scheme implies; None where it implies none."""
    owner = owner_of(url)
    return owner if owner in BROKERS else None
