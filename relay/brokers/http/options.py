"""What the publisher of webhooks can be configured with, and TLS by the files that the variables name."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from relay.brokers.login import BrokerOptions
from relay.brokers.tls import client_context
from relay.core.filemark import FileMark, file_mark
from relay.core.origins import LiveUrl

_FILES: Final = {"tls_ca": "HTTP_TLS_CA", "tls_cert": "HTTP_TLS_CERT", "tls_key": "HTTP_TLS_KEY"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions(BrokerOptions):
    """Times are seconds."""

    secrets: str = field(default="", repr=False)
    """What requests are signed with, with blanks between them."""
    live_secrets: LiveUrl | None = field(default=None, repr=False, compare=False)
    live_proxy: LiveUrl | None = field(default=None, repr=False, compare=False)
    """What say how ``secrets`` and ``egress_proxy`` are now; None where they stay."""
    timeout: float
    """From a request to its answer."""
    connection_timeout: float
    """For a connection, with the name's resolution and the TLS handshake."""
    connections_per_host: int
    """Of this endpoint."""
    permanent_statuses: frozenset[int] = frozenset()
    """Besides those that are permanent for every receiver."""
    content_type: str
    allow_private: bool
    """Whether requests may go to addresses that are not public."""
    egress_proxy: str | None = field(repr=False)
    """The URL of the proxy that requests go through."""
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    now: Callable[[], float] = time.time
    """What requests are dated and signed with, in seconds since 1970."""


def client_tls(options: HttpOptions) -> ssl.SSLContext:
    """The context for the current content of the files, which mounted certificates change; all endpoints share it.

    Raises ConfigError with variable and path for a file that cannot be used.
    """
    files = tuple((name, path) for name in _FILES if (path := getattr(options, name)))
    return _context(files, tuple(file_mark(path) for _, path in files))


@lru_cache(maxsize=16)
def _context(files: tuple[tuple[str, str], ...], _marks: tuple[FileMark, ...]) -> ssl.SSLContext:
    context = client_context(dict(files), _FILES)
    context.set_alpn_protocols(["http/1.1"])
    return context
