"""From a variable's text to its value, without pydantic: for ``relay.settings.value_kinds``, and for commands that need
an address alone (``relay.settings.locations``).

A reader raises ValueError with a sentence that begins with the text as the user wrote it (secrets masked) and says what
is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from relay.core.errors import ConfigError
from relay.core.secrets import mask_url, shown_secret
from relay.postgres.sql import TableName

LONGEST_PREFIX: Final = 40

POSTGRES: Final = ("postgres://", "postgresql://")
_PORTS: Final = re.compile(r"(\d{1,5})?(,(\d{1,5})?)*")
_LARGEST_PORT: Final = 65_535
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_ENCODE: Final = "percent-encode special characters of the user name and password"


def read_table(text: str) -> TableName:
    """A table's name, with its schema or without."""
    try:
        return TableName.parse(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def name_reader(most: int) -> Callable[[str], str]:
    """A reader of names that need no quotes, with at most ``most`` letters; empty is allowed."""

    def read(text: str) -> str:
        if not re.fullmatch(rf"([A-Za-z_][A-Za-z0-9_]{{0,{most - 1}}})?", text):
            raise ValueError(f"{text!r} is not a name; use letters, digits and _, a letter first, at most {most}")
        return text

    return read


def read_log_url(text: str) -> str:
    """The address of a delivery log, whose scheme names its driver."""
    from relay.deliverylog.address import check_log_url  # noqa: PLC0415 - only with a log

    if text.startswith(POSTGRES):
        return read_postgres_url(text)
    try:
        check_log_url(text)
    except ConfigError as error:
        raise ValueError(f"{shown_secret(text)}: {error}") from None
    return text


def read_postgres_url(text: str) -> str:
    """Read as the storage reads it; then what libpq would find out only when it connects."""
    from relay.postgres.url import connection_parameters  # noqa: PLC0415 - psycopg: not for relay --help

    shown = mask_url(text)
    try:
        parts = connection_parameters(text, "")
    except ConfigError as error:
        reason = str(error).removeprefix("STORAGE_URL: ")
        if not text.startswith(POSTGRES):
            raise ValueError(f"{shown_secret(text)}: {reason}") from None
        raise ValueError(f"{shown!r}: {reason}") from None
    ports = str(parts.get("port", ""))
    valid = _PORTS.fullmatch(ports) and all(int(port or 1) <= _LARGEST_PORT for port in ports.split(","))
    if "@" in str(parts.get("host", "")) or not valid:
        # What stands in the port's place may be the password.
        safe = repr(shown) if re.fullmatch(r"[\d,]*", ports) else f"a URL of {len(text)} characters"
        raise ValueError(f"{safe}: the host or port is wrong; {_ENCODE}")
    if parts.get("sslmode", "prefer") not in _SSL_MODES:
        raise ValueError(f"{shown!r}: sslmode may be {', '.join(_SSL_MODES)}")
    return text
