"""What connections to webhook receivers are shared by, and what logs and errors may show of an endpoint."""

from __future__ import annotations

from typing import NamedTuple


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
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"
