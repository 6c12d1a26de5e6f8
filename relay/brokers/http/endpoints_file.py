"""HTTP_ENDPOINTS_FILE: read and checked as a whole, by the readers of every other TOML file.

    [[endpoints]]
    events = "order.*"                      # or a list of patterns; * stands for any characters
    url = "https://hooks.example.com/orders"
    secrets = ["whsec_…", "whsec_…"]        # or secrets_file = "/run/secrets/orders", separated by blanks or lines
    timeout = "5s"                          # optional: instead of HTTP_TIMEOUT

Every problem is reported at once, each with the file and the number of the endpoint. No message shows a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from relay.brokers.http.endpoints import Endpoint, EndpointRow, EndpointTable, make_endpoint
from relay.brokers.http.options import HttpOptions
from relay.brokers.http.signing import Signer
from relay.core.durations import parse_duration
from relay.core.errors import ConfigError
from relay.core.patterns import covers
from relay.core.toml import read_toml, unknown_key

T = TypeVar("T")

_KEYS: Final = ("events", "url", "secrets", "secrets_file", "timeout")
_EXAMPLE: Final = 'write for example [[endpoints]], events = "order.*", url = "https://host/path"'
_CONTENT_TYPE: Final = re.compile(r"[!#$&^_.+\-0-9A-Za-z]+/[!#$&^_.+\-0-9A-Za-z]+(?:;[ !-~]*[!-~])?")


def read_table(options: HttpOptions) -> EndpointTable:
    """Read URL, secrets and table. Raises ConfigError, which names variable and row and shows no secret."""
    if not _CONTENT_TYPE.fullmatch(options.content_type):
        raise ConfigError(f"HTTP_CONTENT_TYPE: {options.content_type!r} is not a media type; write application/json")
    rows = [] if options.endpoints_file is None else _read_rows(options.endpoints_file, options)
    default = None
    if options.url is not None:
        signer = Signer(options.secrets, "HTTP_SECRETS")
        default = make_endpoint(options.url, signer, options.timeout, "PUBLISHER_URL", options)
    if not rows and default is None:
        raise ConfigError("neither PUBLISHER_URL nor HTTP_ENDPOINTS_FILE names an endpoint; set one of them")
    return EndpointTable(rows, default)


def _read_rows(path: str, options: HttpOptions) -> list[EndpointRow]:
    content = read_toml(path, "HTTP_ENDPOINTS_FILE", _EXAMPLE)
    problems = [
        f"{unknown_key(key, ['endpoints'])} at the top of the file" for key in sorted(content.keys() - {"endpoints"})
    ]
    entries = content.get("endpoints", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        problems.append(f"endpoints is not a list of tables; {_EXAMPLE}")
        entries = []
    elif not entries and not problems:
        problems.append(f"it holds no endpoint; {_EXAMPLE}, or unset HTTP_ENDPOINTS_FILE")
    readers = [_EndpointReader(entry, options) for entry in entries]
    rows = [reader.row() for reader in readers]
    for number, reader in enumerate(readers, 1):
        problems += [f"endpoint {number}: {problem}" for problem in reader.problems]
    problems += _unreachable([reader.patterns for reader in readers])
    if problems:
        raise ConfigError("\n".join(f"HTTP_ENDPOINTS_FILE: {path!r}: {problem}" for problem in problems))
    return [row for row in rows if row is not None]


def _unreachable(patterns: Sequence[Sequence[str]]) -> list[str]:
    """Endpoints whose every pattern matches only what one before them takes."""
    problems = []
    for index, own in enumerate(patterns):
        earlier = [one for before in patterns[:index] for one in before]
        if own and all(any(covers(one, pattern) for one in earlier) for pattern in own):
            problems.append(
                f"endpoint {index + 1}: it is never used, because endpoints before it take "
                f"{', '.join(map(repr, own))}; move it before them, or remove it"
            )
    return problems


class _EndpointReader:
    """One entry; what is wrong with it is in ``problems``."""

    def __init__(self, entry: dict[str, Any], options: HttpOptions) -> None:
        self._entry = entry
        self._options = options
        self.problems = [unknown_key(key, _KEYS) for key in sorted(entry.keys() - set(_KEYS))]
        self.patterns = self._texts("events")
        if not self.patterns or "" in self.patterns:
            self.problems.append("it needs events: a pattern such as 'order.*', or a list of them")

    def row(self) -> EndpointRow | None:
        """The row; None where something is wrong."""
        signer = self._tried(lambda: Signer(self._secrets(), "secrets"))
        timeout = self._timeout()
        endpoint = self._endpoint(signer or Signer([], ""), timeout)
        return None if self.problems or endpoint is None else EndpointRow(self.patterns, endpoint)

    def _tried(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except ConfigError as error:
            self.problems.append(str(error))
            return None

    def _endpoint(self, signer: Signer, timeout: float) -> Endpoint | None:
        url = self._entry.get("url")
        if not isinstance(url, str):
            self.problems.append("it needs a url, which is a string")
            return None
        return self._tried(lambda: make_endpoint(url, signer, timeout, "url", self._options))

    def _texts(self, name: str) -> list[str]:
        value = self._entry.get(name, [])
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and all(isinstance(one, str) for one in texts):
            return texts
        self.problems.append(f"{name} is neither a string nor a list of strings")
        return []

    def _secrets(self) -> list[str]:
        path = self._entry.get("secrets_file")
        if path is None:
            return self._texts("secrets")
        if "secrets" in self._entry or not isinstance(path, str):
            raise ConfigError("set secrets or secrets_file, which is a path")
        try:
            secrets = Path(path).read_text(encoding="utf-8-sig").split()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ConfigError(f"secrets_file {path!r} cannot be read: {reason}") from None
        if not secrets:  # requests without a signature are not what it says
            raise ConfigError(f"secrets_file {path!r} is empty; write whsec_… into it")
        return secrets

    def _timeout(self) -> float:
        value = self._entry.get("timeout")
        if value is None:
            return self._options.timeout
        try:
            seconds = parse_duration(value) if isinstance(value, str) else 0.0
        except ValueError as error:
            self.problems.append(f"timeout: {error}")
            return self._options.timeout
        if seconds <= 0:
            self.problems.append("timeout is not a duration above zero; write for example '5s'")
        return seconds
