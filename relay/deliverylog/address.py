"""What the URL of a delivery log may be. No message shows a part of it. Imports no driver."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from relay.core.errors import ConfigError

_CLICKHOUSE = ("clickhouse", "clickhouses", "chdb")
_SCHEMES = ("memory", "postgres", "postgresql", *_CLICKHOUSE)
_LOGIN_END = re.compile(r"[/?#]")


def check_log_url(url: str) -> None:
    """Raise ConfigError for a URL that no driver takes; that of PostgreSQL is read where it is opened."""
    scheme = url.partition(":")[0].lower()
    if scheme not in _SCHEMES:
        raise ConfigError(
            "the URL of a delivery log begins with postgres://, clickhouse://, clickhouses://, chdb:/// or memory://"
        )
    if scheme in _CLICKHOUSE:
        _check_address(url)


def _check_address(url: str) -> None:
    """Refuse a bare special character in a password: the client would read a part of it as the host, and show that."""
    try:
        port_is_valid = urlsplit(url).port != 0
    except ValueError:
        port_is_valid = False
    if not port_is_valid or "@" in _LOGIN_END.sub("/", url.partition("://")[2]).partition("/")[2]:
        raise ConfigError(
            "the URL of the delivery log is invalid; write clickhouse://user:password@host:8123/database and "
            "percent-encode special characters of a password (@ is %40, / is %2F, ? is %3F, # is %23)"
        )
