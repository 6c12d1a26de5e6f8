"""What connections to webhook receivers are shared by, what may be shown of an endpoint, and the login in its URL."""

from __future__ import annotations

import base64
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote

PORTS: Final = {"http": 80, "https": 443}
"""The usual one of each scheme."""


class Origin(NamedTuple):
    """What connections are shared by: scheme, host in its ASCII form, port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Without path, query and login: they may hold secrets."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """The value of Host."""
        return authority(self.host, self.port).removesuffix(f":{PORTS[self.scheme]}")


def authority(host: str, port: int) -> str:
    """Host and port in a request."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def login_in(parts: SplitResult) -> str | None:
    """The value of Authorization for a URL; None where it has no login."""
    if parts.username is None:
        return None
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(login.encode()).decode()}"
