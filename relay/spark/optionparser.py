"""The parser of the options of all three formats, which runs once on the driver, before anything is read or written.

Every invalid value is a ConfigError that names the option. The URL, which may hold a password, is in no ``repr``;
Spark itself shows no option whose name has ``url`` in a plan.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar
from uuid import UUID

from relay.core.durations import parse_duration
from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_TABLE, TableName
from relay.postgres.url import check_url
from relay.spark.connection import DEFAULT_MAX_WAIT, URL_OPTION

_log = logging.getLogger(__name__)

DEFAULT_CONNECTIONS: Final = 8
MOST_CONNECTIONS: Final = 10_000
_FORMER: Final = {"maxConnections": "numPartitions"}

_OF_STREAMS: Final = ("checkpointLocation", "queryName")
"""Options of Spark's own, which it passes on to the source and the sink of a stream."""

_TABLES: Final = (
    "A table of the catalog cannot be one, since Spark passes none of its options on: use CREATE TEMPORARY VIEW … "
    "USING … OPTIONS (url '…'), from which SELECT reads and into which INSERT INTO writes"
)

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

Choice = TypeVar("Choice", bound=StrEnum)
T = TypeVar("T")


class OptionParser:
    """The options of one read or write. Spark's options are case-insensitive."""

    def __init__(
        self,
        format_: str,
        options: Mapping[str, str],
        known: Sequence[str],
        *,
        streams: bool,
        former: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        """``former`` has options of an earlier release, and which one has the place of each.

        Raises ConfigError for an unknown option, and for a missing or invalid URL.
        """
        self._values = {name.lower(): value for name, value in options.items()}
        former = {**_FORMER, **former}
        for name, present in former.items():
            if name.lower() in self._values:
                _log.warning("option %s: set %s instead; the next release does not know %s", name, present, name)
        self.rename("maxConnections", "numPartitions")
        names = {name.lower() for name in (*known, *former, *(_OF_STREAMS if streams else ()))}
        unknown = sorted(self._values.keys() - names)
        if "provider" in unknown:
            raise ConfigError(f"format {format_}: {_TABLES}")
        if unknown:
            raise ConfigError(
                f"option {', '.join(unknown)}: not known to format {format_}; known are {', '.join(known)}"
            )
        if not self._values.get("url"):
            raise ConfigError(f'option url: missing; .option("url", "postgresql://user@host:5432/database"). {_TABLES}')
        self.url = self._values["url"]
        check_url(self.url, URL_OPTION)

    def text(self, name: str) -> str | None:
        """Raises ConfigError for an empty value, and for one with a NUL character, which PostgreSQL cannot store."""
        value = self._values.get(name.lower())
        if value is not None and (not value or "\x00" in value):
            raise ConfigError(f"option {name}: empty, or with a NUL character; set a value or leave it out")
        return value

    def rename(self, name: str, present: str) -> None:
        """Take the value of one option for that of another. Raises ConfigError where both are set and differ."""
        value = self._values.pop(name.lower(), None)
        if value is not None and self._values.setdefault(present.lower(), value) != value:
            raise ConfigError(f"options {name} and {present}: are one, and have two values; set {present} alone")

    def table(self) -> TableName:
        """The outbox table, by the option ``table`` or, as Spark's own sources have it, ``dbtable``."""
        self.rename("dbtable", "table")
        return TableName.parse(self._values.get("table") or DEFAULT_TABLE)

    def names(self, name: str) -> tuple[str, ...]:
        """Names with commas between."""
        text = self._values.get(name.lower()) or ""
        names = tuple(word.strip() for word in text.split(",")) if text.strip() else ()
        if not all(names) or len(set(names)) != len(names):
            raise ConfigError(f"option {name}: {text!r}; write names with commas between, each once")
        return names

    def number(self, name: str, default: int, most: int, least: int = 1) -> int:
        """A whole number from ``least`` to ``most``."""
        return self._parsed(name, default, whole_number(most, least))

    def connections(self) -> int:
        """The most connections, and tasks that read, by the option ``numPartitions``."""
        return self.number("numPartitions", DEFAULT_CONNECTIONS, MOST_CONNECTIONS)

    def max_wait(self) -> float:
        """Seconds for which an unavailable database is waited for, by the option ``maxWait``."""
        return self.seconds("maxWait", DEFAULT_MAX_WAIT)

    def seconds(self, name: str, default: float) -> float:
        """A duration with its unit, such as ``90m``, in seconds."""
        return self._parsed(name, default, parse_duration)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false, in any case."""
        text = (self._values.get(name.lower()) or str(default)).lower()
        if text not in ("true", "false"):
            raise ConfigError(f"option {name}: {text!r} is neither true nor false")
        return text == "true"

    def choice(self, name: str, default: Choice) -> Choice:
        """One of the values of the default's class, in any case."""
        if not self._values.get(name.lower()):
            return default
        return type(default)(self._parsed(name, default.value, one_of(*type(default))))

    def uuid(self, name: str) -> UUID | None:
        """A UUID."""
        return self._parsed(name, None, uuid_of)

    def _parsed(self, name: str, default: T, parse: Callable[[str], T]) -> T:
        text = self._values.get(name.lower())
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise ConfigError(f"option {name}: {error}") from None


def whole_number(most: int, least: int = 1) -> Callable[[str], int]:
    """The parser of a number in this range; it raises ValueError."""

    def parse(text: str) -> int:
        if not text.strip().isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is not a number from {least} to {most}")
        return int(text)

    return parse


def one_of(*values: str) -> Callable[[str], str]:
    """The parser of one of these values, in any case; it raises ValueError."""
    known = {value.lower(): value for value in values}

    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ValueError(f"{text!r} is not one of {', '.join(known)}")
        return known[text.lower()]

    return parse


def uuid_of(text: str) -> UUID:
    """Raises ValueError, which shows the text."""
    try:
        return UUID(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a UUID") from None
