"""HTTP_ENDPOINTS_FILE: destinations of type http with routes to them, by the readers of the other files.

    [[endpoints]]
    events = "order.*"                      # or a list of patterns; * stands for any characters
    url = "https://hooks.example.com/orders"
    secrets = ["whsec_…", "whsec_…"]        # or secrets_file = "/run/secrets/orders", separated by blanks or lines
    timeout = "5s"                          # optional: instead of HTTP_TIMEOUT

Each entry is a table of DESTINATIONS_FILE under shorter keys, and a route for each of its patterns. Its name is the
host of its URL, with the entry's number where several lead to one host: a path may hold a secret. Every problem is
reported at once, each with the file and the number of the endpoint. No message shows a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from relay.core.errors import ConfigError
from relay.core.patterns import never_used
from relay.routing.rules import PLAIN, Routes, Rule
from relay.settings.destinations_file import read_destination, with_keys
from relay.settings.settings import Settings
from relay.settings.toml import read_list

_KEYS: Final = {
    "events": "EVENTS",
    "url": "PUBLISHER_URL",
    "secrets": "HTTP_SECRETS",
    "secrets_file": "HTTP_SECRETS_FILE",
    "timeout": "HTTP_TIMEOUT",
    "rate": "PUBLISHER_RATE",
    "proxy": "HTTP_EGRESS_PROXY",
    "proxy_file": "HTTP_EGRESS_PROXY_FILE",
}
_EXAMPLE: Final = 'write for example [[endpoints]], events = "order.*", url = "https://host/path"'


class Endpoints(NamedTuple):
    """What the file and PUBLISHER_URL say together."""

    destinations: Mapping[str, Settings]
    routes: Routes


def read_endpoints(name: str, prefix: str, settings: Settings, verify: Callable[[Settings], object]) -> Endpoints:
    """The destinations of HTTP_ENDPOINTS_FILE, and that of PUBLISHER_URL under ``name`` for what no pattern takes.

    The names of endpoints begin with ``prefix``. ``verify`` raises ConfigError for a URL or secret that cannot be used.
    Raises ConfigError with every problem.
    """
    path = settings.http_endpoints_file or ""
    entries, problems = read_list(path, "HTTP_ENDPOINTS_FILE", "endpoints", "endpoint", _EXAMPLE)
    others = {"http_endpoints_file": None}
    destinations = {} if settings.publisher_url is None else {name: settings.model_copy(update=others)}
    said = tuple(text for text in settings.warnings if "PUBLISHER_URL" not in text)  # which is no endpoint's own
    base = settings.model_copy(update=others | {"http_secrets": None, "publisher_url": None, "warnings": said})
    patterns, rules = [], []
    for number, entry in enumerate(entries, 1):
        wrong: list[str] = []
        patterns.append(_texts("events", entry, wrong))
        if not patterns[-1] or "" in patterns[-1]:
            wrong.append("it needs events: a pattern such as 'order.*', or a list of them")
        one = _destination(_name(prefix, entry, number, destinations), entry, base, verify, wrong)
        problems += [f"endpoint {number}: {problem}" for problem in wrong]
        if one is not None:
            destinations[one.publisher_name] = one
            rules += [Rule(number, pattern, PLAIN, one.publisher_name) for pattern in patterns[-1]]
    problems += never_used("endpoint", patterns)
    if problems:
        raise ConfigError("\n".join(f"HTTP_ENDPOINTS_FILE: {path!r}: {problem}" for problem in problems))
    return Endpoints(destinations, Routes(rules, default=None if settings.publisher_url is None else name))


def _destination(
    name: str, entry: Mapping[str, Any], base: Settings, verify: Callable[[Settings], object], wrong: list[str]
) -> Settings | None:
    table = {key: value for key, value in entry.items() if key != "events"}
    if "secrets" in table:
        table["secrets"] = " ".join(_texts("secrets", entry, wrong))
    if not isinstance(table.get("url"), str):
        wrong.append("it needs a url, which is a string")
    one, problems = read_destination(name, table | {"type": "http"}, base, _KEYS | {"type": "PUBLISHER_TYPE"})
    if one is not None and not wrong:
        try:
            verify(one)
        except ConfigError as error:
            problems.append(with_keys(str(error), _KEYS))
    wrong += problems
    return one


def _texts(key: str, entry: Mapping[str, Any], wrong: list[str]) -> list[str]:
    value = entry.get(key, [])
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list) and all(isinstance(one, str) for one in texts):
        return texts
    wrong.append(f"{key} is neither a string nor a list of strings")
    return []


def _name(prefix: str, entry: Mapping[str, Any], number: int, taken: Mapping[str, object]) -> str:
    """The host and port of the URL; no part of a URL that is none, which may hold a login."""
    try:
        host = urlsplit(str(entry.get("url"))).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    name = f"{prefix}{host or 'endpoint'}"
    return f"{name}#{number}" if name in taken else name
