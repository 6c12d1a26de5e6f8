"""The kinds of values a variable may have: how each is read from text, and its message for a wrong one.

A reader takes the variable's text and returns the value, or raises ValueError with a sentence that begins with the
text as the user wrote it (unless it is a secret) and says what is allowed.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, SecretStr

from relay.core.durations import format_duration, parse_duration, parse_size
from relay.postgres.sql import LONGEST_IDENTIFIER, TableName
from relay.settings.address import Address, is_loopback, parse_address
from relay.settings.readers import LONGEST_PREFIX, name_reader, read_log_url, read_postgres_url, read_table

_TRUE = frozenset({"true", "1", "yes", "on", "t"})
_FALSE = frozenset({"false", "0", "no", "off", "f"})
_SHORTEST = 0.001  # seconds; a shorter pause is a loop without one
_LOWEST_RATE = 0.01
_HIGHEST_RATE = 1_000_000
_LONGEST = 8760 * 3600.0  # seconds, a year: more overflows timers and timestamps, and is a slip


@dataclass(frozen=True, slots=True)
class VariableKind:
    """How a variable's value is written, for the documentation."""

    text: str


def kind(text: str, read: Callable[[str], Any]) -> tuple[BeforeValidator, VariableKind]:
    """A kind of value; None, an unset variable, passes through."""
    return BeforeValidator(lambda value: value if value is None else read(str(value))), VariableKind(text)


def whole(least: int = 1, most: int = 1_000_000) -> Callable[[str], int]:
    """A reader of whole numbers from ``least`` to ``most``."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,12}", text.strip()) or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


def words(*allowed: str) -> Callable[[str], str]:
    """A reader of one word out of ``allowed``, upper or lower case."""

    def read(text: str) -> str:
        word = text.strip().lower()
        if word not in allowed:
            near = difflib.get_close_matches(word, allowed, 1)
            suggestion = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"{text!r} is not allowed; write {' or '.join(allowed)}{suggestion}")
        return word

    return read


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is too long; write at most {format_duration(_LONGEST)}")
    return seconds


def _positive_duration(text: str) -> float:
    seconds = _duration(text)
    if seconds < _SHORTEST:
        raise ValueError(f"{text!r} is too short; write at least {format_duration(_SHORTEST)}")
    return seconds


def _positive_size(text: str) -> int:
    size = parse_size(text)
    if size < 1:
        raise ValueError(f"{text!r} is too small; write at least 1 byte, for example 64MiB")
    return size


def _uri_reference(text: str) -> str:
    if not re.fullmatch(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+", text):
        raise ValueError(
            f"{text!r} is not a URI reference; write for example /shop/orders or https://shop.example/orders, and "
            "percent-encode all other characters"
        )
    return text


def _share(text: str) -> float:
    if not re.fullmatch(r"\d*\.?\d+|\d+\.", text.strip()) or not 0 <= float(text) <= 1:
        raise ValueError(f"{text!r} is not a number from 0 to 1")
    return float(text)


def _rate(text: str) -> float:
    if not re.fullmatch(r"\d{1,7}(\.\d{1,6})?", text.strip()) or not _LOWEST_RATE <= float(text) <= _HIGHEST_RATE:
        raise ValueError(f"{text!r} is not a number of events a second from {_LOWEST_RATE:g} to {_HIGHEST_RATE:,}")
    return float(text)


def statuses(text: str) -> frozenset[int]:
    """Statuses of HTTP from 400 to 499, separated by commas."""
    written = [one.strip() for one in text.split(",")]
    if not all(re.fullmatch(r"4\d\d", one) for one in written):
        raise ValueError(f"{text!r} is not a list of statuses from 400 to 499; write for example 400,422")
    return frozenset(map(int, written))


def patterns(text: str) -> tuple[str, ...]:
    """Patterns of event types, separated by commas."""
    written = tuple(one.strip() for one in text.split(","))
    if not all(written):
        raise ValueError(f"{text!r} has an empty pattern; write for example orders.*,user.signup")
    return written


ROLES = ("reader", "operator", "admin")
"""The roles of the console, each of which may also do what those before it may."""


def console_roles(text: str) -> dict[str, str]:
    """The role of each value of a claim. Raises ValueError for anything but a JSON object of such pairs."""
    try:
        roles = json.loads(text)
    except ValueError:
        roles = None
    if not isinstance(roles, dict) or not roles or not all(role in ROLES for role in roles.values()):
        raise ValueError(
            f"{text!r} is not a JSON object of values and roles; write for example "
            f'{{"ops": "operator", "sre": "admin"}}, with the roles {", ".join(ROLES)}'
        )
    return roles


def networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Addresses and networks, separated by commas."""
    try:
        return tuple(ipaddress.ip_network(one.strip()) for one in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not a list of addresses; write for example 10.0.0.7, 10.1.0.0/16") from None


def _web_url(text: str, example: str) -> tuple[SplitResult, str]:
    """The parts of a URL without a login, and its host; an empty one where it is no web server's address."""
    try:
        parts = urlsplit(text.strip())
        _ = parts.port  # raises where it is none
    except ValueError:
        raise ValueError(f"it is not a URL; {example}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"it must not hold a user or password; {example}")
    is_web = parts.scheme in ("http", "https") and "?" not in text and "#" not in text
    return parts, (parts.hostname or "") if is_web else ""


def web_origin(text: str) -> str:
    """The URL of a web server without a path, as browsers write it in Origin: in lower case, no default port."""
    example = "write for example https://outbox.example.com"
    parts, host = _web_url(text, example)
    if not host or parts.path.strip("/"):
        raise ValueError(f"{text!r} is not an address of a web server without a path; {example}")
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port not in (None, usual) else "")


def issuer(text: str) -> str:
    """The URL of an OpenID Connect issuer: https, or http on this machine."""
    example = "write for example https://login.example.com/realms/ops"
    parts, host = _web_url(text, example)
    if not host:
        raise ValueError(f"{text!r} is not the address of an issuer; {example}")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(f"{text!r} is not encrypted, and its keys decide who logs in; write https://")
    return text.strip()


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{text!r} is not allowed; write true or false")
    return word in _TRUE


Duration = Annotated[float, *kind("duration", _positive_duration)]
DurationOrZero = Annotated[float, *kind("duration", _duration)]
Count = Annotated[int, *kind("number", whole())]
CountOrZero = Annotated[int, *kind("number", whole(0))]
LargeCount = Annotated[int, *kind("number", whole(most=10**12 - 1))]
Size = Annotated[int, *kind("size", _positive_size)]
Rate = Annotated[float, *kind("events/s", _rate)]
Share = Annotated[float, *kind("0 to 1", _share)]
Flag = Annotated[bool, *kind("true, false", _flag)]
Text = Annotated[str, *kind("text", str)]
UriReference = Annotated[str, *kind("URI", _uri_reference)]
Schema = Annotated[str, *kind("name", name_reader(LONGEST_IDENTIFIER))]
Prefix = Annotated[str, *kind("name", name_reader(LONGEST_PREFIX))]
Secret = Annotated[SecretStr, *kind("secret", SecretStr)]
Command = Annotated[SecretStr, *kind("command", SecretStr)]
"""Its arguments may hold the login of the program that it runs."""
ConsoleRoles = Annotated[dict[str, str], *kind("JSON", console_roles)]
Statuses = Annotated[frozenset[int], *kind("statuses", statuses)]
Patterns = Annotated[tuple[str, ...], *kind("patterns", patterns)]
Networks = Annotated[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...], *kind("addresses", networks)]
WebOrigin = Annotated[str, *kind("URL", web_origin)]
Issuer = Annotated[str, *kind("URL", issuer)]
Listen = Annotated[Address, *kind("address", parse_address)]
Table = Annotated[TableName, *kind("table", read_table)]
PostgresUrl = Annotated[SecretStr, *kind("URL", lambda text: SecretStr(read_postgres_url(text)))]
LogUrl = Annotated[SecretStr, *kind("URL", lambda text: SecretStr(read_log_url(text)))]
SecretUrl = Annotated[SecretStr, *kind("URL", SecretStr)]
