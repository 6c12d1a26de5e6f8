"""An address to listen on, as SERVER_PORT writes it. Standard library only: ``relay --healthcheck`` reads it."""

from __future__ import annotations

import re
from typing import NamedTuple

DEFAULT_SERVER_PORT = ":8080"
DEFAULT_CONSOLE_PORT = "127.0.0.1:8090"

_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^:\[\]\s]*):)?(?P<port>\d{1,5})")


class Address(NamedTuple):
    """Where to listen; ``host`` is empty for all interfaces."""

    host: str
    port: int


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``. Names are not resolved: of these, ``localhost`` alone counts."""
    name = host.lower().strip("[]")
    return name in ("localhost", "::1") or re.fullmatch(r"127(\.\d{1,3}){3}", name) is not None


def parse_address(text: str) -> Address:
    """Read ``:8080``, ``127.0.0.1:8080``, ``[::1]:8080`` or ``8080``. Raises ValueError with what is allowed."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65_535:
        raise ValueError(f"{text!r} is not an address to listen on; write :8080, 127.0.0.1:8080 or [::1]:8080")
    return Address((match["host"] or "").strip("[]"), int(match["port"]))
