"""What the publisher of webhooks can be configured with, and TLS by the files that the variables name."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from relay.brokers.tls import client_context
from relay.core.errors import ConfigError
from relay.core.formats.message import MessageFormat

_FILES: Final = {"tls_ca": "HTTP_TLS_CA", "tls_cert": "HTTP_TLS_CERT", "tls_key": "HTTP_TLS_KEY"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Times are seconds. What a variable sets has no default here: ``relay.settings`` holds it."""

    message_format: MessageFormat | None
    """None for the contract's own."""
    url: str | None = field(repr=False)
    """Where events go that the table names no endpoint for; None for none."""
    endpoints_file: str | None
    """The table (``relay.brokers.http.endpoints``); None for none."""
    secrets: Sequence[str] = field(repr=False)
    """What requests to ``url`` are signed with."""
    timeout: float
    """From a request to its answer."""
    connection_timeout: float
    """For a connection, with the name's resolution and the TLS handshake."""
    connections_per_host: int
    content_type: str
    allow_private: bool
    """Whether requests may go to addresses that are not public."""
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    circuit_pause: float
    """For how long a host that failed several times in a row gets no request."""


class ClientTls:
    """The TLS context; made again when one of the files has changed, as mounted certificates do."""

    def __init__(self, options: HttpOptions) -> None:
        self._files = {name: path for name in _FILES if (path := getattr(options, name))}
        self._context: ssl.SSLContext | None = None
        self._marks: list[tuple[int, int]] = []

    def context(self) -> ssl.SSLContext:
        """Read what has changed. Raises ConfigError with variable and path for a file that cannot be used."""
        if "tls_key" in self._files and "tls_cert" not in self._files:
            raise ConfigError("HTTP_TLS_KEY is set, and HTTP_TLS_CERT is not: set both, or neither")
        marks = [_mark(path) for path in self._files.values()]
        if self._context is None or marks != self._marks:
            context = client_context(self._files, _FILES)
            context.set_alpn_protocols(["http/1.1"])
            self._context, self._marks = context, marks
        return self._context


def _mark(path: str) -> tuple[int, int]:
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):
        return 0, 0
    return stat.st_mtime_ns, stat.st_size
