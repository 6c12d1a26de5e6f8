"""Which endpoint takes the events of a type: PUBLISHER_URL, or a row of the table in HTTP_ENDPOINTS_FILE.

The first row with a pattern that matches takes the event; PUBLISHER_URL takes the others, where it is set.
``endpoints_file`` reads the table.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from relay.brokers.http.addresses import literal_refusal
from relay.brokers.http.options import HttpOptions
from relay.brokers.http.origin import Origin
from relay.brokers.http.signing import Signer
from relay.core.errors import ConfigError
from relay.core.patterns import compile_pattern

_PORTS: Final = {"http": 80, "https": 443}
_SHAPE: Final = (
    "write https://host/path, and percent-encode special characters (a blank is %20; in a login @ is %40, / is %2F)"
)
_VISIBLE: Final = re.compile(r"[!-~]+")
_MOST_KNOWN: Final = 10_000  # event types whose endpoint is remembered


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """Where a request goes, and how it is signed."""

    origin: Origin
    target: str = field(repr=False)
    """Path and query: they may hold a secret."""
    authorization: str | None = field(repr=False)
    """The value of Authorization; None without a login in the URL."""
    signer: Signer = field(repr=False)
    timeout: float


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """One entry of the table."""

    patterns: Sequence[str]
    endpoint: Endpoint


class EndpointTable:
    """All endpoints; ``match`` finds that of an event type."""

    def __init__(self, rows: Sequence[EndpointRow], default: Endpoint | None) -> None:
        self._rows = rows
        self._default = default
        self._known: dict[str, Endpoint | None] = {}

    @property
    def origins(self) -> list[Origin]:
        """Each host once."""
        endpoints = [row.endpoint for row in self._rows] + ([self._default] if self._default else [])
        return list(dict.fromkeys(endpoint.origin for endpoint in endpoints))

    @property
    def receivers(self) -> list[str]:
        """Each endpoint's host and path, without query and login."""
        endpoints = [row.endpoint for row in self._rows] + ([self._default] if self._default else [])
        return sorted({f"{one.origin}{one.target.partition('?')[0]}" for one in endpoints})

    def match(self, event_type: str) -> Endpoint | None:
        """The endpoint of an event type; None where none takes it."""
        if event_type not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[event_type] = self._find(event_type)
        return self._known[event_type]

    def _find(self, event_type: str) -> Endpoint | None:
        for row in self._rows:
            if any(compile_pattern(pattern).fullmatch(event_type) for pattern in row.patterns):
                return row.endpoint
        return self._default


def make_endpoint(url: str, signer: Signer, timeout: float, where: str, options: HttpOptions) -> Endpoint:
    """Raise ConfigError for a URL that is none. No message shows a part of a URL that is wrong: it may hold a login."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").encode("idna").decode()
    except (ValueError, UnicodeError):
        raise ConfigError(f"{where} is not the URL of an endpoint: {_SHAPE}") from None
    if parts.scheme not in _PORTS or not host or "#" in url or not _VISIBLE.fullmatch(f"/{parts.path}{parts.query}"):
        raise ConfigError(f"{where} is not the URL of an endpoint: {_SHAPE}")
    if not options.allow_private and (refusal := literal_refusal(host)):
        raise ConfigError(f"{where}: {refusal}")
    login = None
    if parts.username is not None:
        text = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Basic {base64.b64encode(text.encode()).decode()}"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(Origin(parts.scheme, host, port or _PORTS[parts.scheme]), target, login, signer, timeout)
