"""The kinds of values a variable may have: how each is read from text, and its message for a wrong one.

A reader takes the variable's text and returns the value, or raises ValueError with a sentence that begins with the
text as the user wrote it (unless it is a secret) and says what is allowed.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, SecretStr

from relay.core.durations import format_duration, parse_duration, parse_size
from relay.postgres.sql import LONGEST_IDENTIFIER, TableName
from relay.settings.address import Address, parse_address
from relay.settings.readers import LONGEST_PREFIX, name_reader, read_postgres_url, read_table

_TRUE = frozenset({"true", "1", "yes", "on", "t"})
_FALSE = frozenset({"false", "0", "no", "off", "f"})
_SHORTEST = 0.001  # seconds; a shorter pause is a loop without one
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


def _share(text: str) -> float:
    if not re.fullmatch(r"\d*\.?\d+|\d+\.", text.strip()) or not 0 <= float(text) <= 1:
        raise ValueError(f"{text!r} is not a number from 0 to 1")
    return float(text)


def tenant_tokens(text: str) -> dict[str, str]:
    """The token of each tenant. Raises ValueError, without the text, for anything but a JSON object of such pairs."""
    try:
        tokens = json.loads(text)
    except ValueError:
        tokens = None
    if not isinstance(tokens, dict) or not tokens or not all(isinstance(one, str) and one for one in tokens.values()):
        raise ValueError(
            'it must be a JSON object of tenants and their tokens: {"acme": "a token", "globex": "another"}'
        )
    if len(set(tokens.values())) < len(tokens):
        raise ValueError("two tenants have the same token; give each one of its own")
    return tokens


def read_tenant_tokens(text: str) -> SecretStr:
    """The text, when ``tenant_tokens`` can read it."""
    tenant_tokens(text)
    return SecretStr(text)


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{text!r} is not allowed; write true or false")
    return word in _TRUE


Duration = Annotated[float, *kind("duration", _positive_duration)]
DurationOrZero = Annotated[float, *kind("duration", _duration)]
Count = Annotated[int, *kind("number", whole())]
Size = Annotated[int, *kind("size", _positive_size)]
Share = Annotated[float, *kind("0 to 1", _share)]
Flag = Annotated[bool, *kind("true, false", _flag)]
Text = Annotated[str, *kind("text", str)]
Schema = Annotated[str, *kind("name", name_reader(LONGEST_IDENTIFIER))]
Prefix = Annotated[str, *kind("name", name_reader(LONGEST_PREFIX))]
Secret = Annotated[SecretStr, *kind("secret", SecretStr)]
TenantTokens = Annotated[SecretStr, *kind("secret", read_tenant_tokens)]
Listen = Annotated[Address, *kind("address", parse_address)]
Table = Annotated[TableName, *kind("table", read_table)]
PostgresUrl = Annotated[SecretStr, *kind("URL", lambda text: SecretStr(read_postgres_url(text)))]
SecretUrl = Annotated[SecretStr, *kind("URL", SecretStr)]
