"""Which endpoint takes the events of a type: PUBLISHER_URL, or a row of the table in HTTP_ENDPOINTS_FILE.

The table is TOML:

    [[endpoints]]
    events = "order.*"                      # or a list of patterns; * stands for any characters
    url = "https://hooks.example.com/orders"
    secrets = ["whsec_…", "whsec_…"]        # or secrets_file = "/run/secrets/orders", separated by blanks or lines
    timeout = "5s"                          # optional: instead of HTTP_TIMEOUT

The first row with a pattern that matches takes the event; PUBLISHER_URL takes the others, where it is set.
"""

from __future__ import annotations

import base64
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from relay.brokers.http.addresses import literal_refusal
from relay.brokers.http.options import HttpOptions
from relay.brokers.http.origin import Origin
from relay.brokers.http.signing import Signer
from relay.core.durations import parse_duration
from relay.core.errors import ConfigError

_KEYS: Final = {"events", "url", "secrets", "secrets_file", "timeout"}
_PORTS: Final = {"http": 80, "https": 443}
_SHAPE: Final = (
    "write https://host/path, and percent-encode special characters (a blank is %20; in a login @ is %40, / is %2F)"
)
_CONTENT_TYPE: Final = re.compile(r"[!#$&^_.+\-0-9A-Za-z]+/[!#$&^_.+\-0-9A-Za-z]+(?:;[ !-~]*[!-~])?")
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
class _Row:
    patterns: Sequence[re.Pattern[str]]
    endpoint: Endpoint


class EndpointTable:
    """All endpoints; ``match`` finds that of an event type."""

    def __init__(self, rows: Sequence[_Row], default: Endpoint | None) -> None:
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
            if any(pattern.fullmatch(event_type) for pattern in row.patterns):
                return row.endpoint
        return self._default


def read_table(options: HttpOptions) -> EndpointTable:
    """Read URL, secrets and table. Raises ConfigError, which names variable and row and shows no secret."""
    if not _CONTENT_TYPE.fullmatch(options.content_type):
        raise ConfigError(f"HTTP_CONTENT_TYPE: {options.content_type!r} is not a media type; write application/json")
    rows = [] if options.endpoints_file is None else _read_rows(options.endpoints_file, options)
    default = None
    if options.url is not None:
        signer = Signer(options.secrets, "HTTP_SECRETS")
        default = _endpoint(options.url, signer, options.timeout, "PUBLISHER_URL", options)
    if not rows and default is None:
        raise ConfigError("neither PUBLISHER_URL nor HTTP_ENDPOINTS_FILE names an endpoint; set one of them")
    return EndpointTable(rows, default)


def _read_rows(path: str, options: HttpOptions) -> list[_Row]:
    where = f"HTTP_ENDPOINTS_FILE: {path!r}"
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{where} cannot be read: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not TOML: {error}") from None
    rows = document.get("endpoints")
    if document.keys() != {"endpoints"} or not isinstance(rows, list) or not rows:
        raise ConfigError(f"{where} must hold tables [[endpoints]], and nothing else")
    return [_row(row, f"{where}, endpoint {number}", options) for number, row in enumerate(rows, 1)]


def _row(row: object, where: str, options: HttpOptions) -> _Row:
    if not isinstance(row, dict):
        raise ConfigError(f"{where} is not a table")
    if unknown := sorted(row.keys() - _KEYS):
        raise ConfigError(f"{where}: {unknown[0]!r} is not known; an endpoint takes {', '.join(sorted(_KEYS))}")
    patterns, url, timeout = _texts(row, "events", where), row.get("url"), row.get("timeout")
    if not patterns or not isinstance(url, str):
        raise ConfigError(f"{where} needs events (a pattern such as 'order.*', or a list of them) and a url")
    signer = Signer(_secrets(row, where), where)
    seconds = options.timeout if timeout is None else _timeout(timeout, where)
    return _Row([_pattern(one) for one in patterns], _endpoint(url, signer, seconds, f"{where}: url", options))


def _texts(row: Mapping[str, Any], name: str, where: str) -> list[str]:
    value = row.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise ConfigError(f"{where}: {name} is neither a string nor a list of strings")
    return texts


def _secrets(row: Mapping[str, Any], where: str) -> list[str]:
    path = row.get("secrets_file")
    if path is None:
        return _texts(row, "secrets", where)
    if "secrets" in row or not isinstance(path, str):
        raise ConfigError(f"{where}: set secrets or secrets_file, which is a path")
    try:
        secrets = Path(path).read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{where}: secrets_file {path!r} cannot be read: {reason}") from None
    if not secrets:  # requests without a signature are not what it says
        raise ConfigError(f"{where}: secrets_file {path!r} is empty; write whsec_… into it")
    return secrets


def _timeout(value: object, where: str) -> float:
    try:
        seconds = parse_duration(value) if isinstance(value, str) else 0.0
    except ValueError as error:
        raise ConfigError(f"{where}: timeout: {error}") from None
    if seconds <= 0:
        raise ConfigError(f"{where}: timeout is not a duration above zero; write for example '5s'")
    return seconds


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def _endpoint(url: str, signer: Signer, timeout: float, where: str, options: HttpOptions) -> Endpoint:
    """No message shows a part of a URL that is wrong: it may hold a login."""
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
