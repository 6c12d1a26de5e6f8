"""Hosts and ports, as PUBLISHER_URL writes them: ``host:port``, a name alone, ``[::1]:port``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from relay.core.errors import ConfigError

_HOST: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^@/?#:,\[\]\s]+)(?::(?P<port>\d{1,5}))?")
_LAST_PORT: Final = 65_535


class ServerAddress(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def read_address(part: str, default_port: int) -> ServerAddress | None:
    """One of them; None for what is none."""
    match = _HOST.fullmatch(part.strip())
    if match is None or int(match["port"] or 1) > _LAST_PORT:
        return None
    return ServerAddress(match["host"].strip("[]"), int(match["port"] or default_port))


def read_addresses(hosts: str, default_port: int, refusal: str) -> tuple[ServerAddress, ...]:
    """Those of a list with commas. Raises ConfigError, which says ``refusal``, where one is none."""
    addresses = [read_address(part, default_port) for part in hosts.split(",")]
    known = tuple(one for one in addresses if one is not None)
    if len(known) < len(addresses):
        raise ConfigError(refusal)
    return known
