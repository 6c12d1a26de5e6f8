"""What a user of the readers may set, read once on the driver and checked before anything is read.

Whatever is wrong is a ConfigError that names the option. The URL, which may hold a password, is in no ``repr``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_SCHEMA, DEFAULT_TABLE, TableName, checked_schema
from relay.postgres.url import check_url
from relay.spark.connection import URL_OPTION
from relay.spark.write.options import DEFAULT_CONNECTIONS

DEFAULT_PARTITIONS: Final = 8

_COMMON: Final = ("url", "columns", "numPartitions", "maxConnections")
_TABLE: Final = (*_COMMON, "pushdown", "snapshot")
_LOG_SCHEMA: Final = "openoutbox_log"
_EVENTS: Final = (*_COMMON, "storeSchema", "tenants", "types", "start", "end", "maxEventsPerTrigger")
_SPARKS_OWN: Final = ("checkpointLocation", "queryName")
_LARGEST: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options that all readers have; docs/spark.md says what each is for."""

    url: str = field(repr=False)
    columns: tuple[str, ...] = ()
    partitions: int = DEFAULT_PARTITIONS
    max_connections: int = DEFAULT_CONNECTIONS


@dataclass(frozen=True, slots=True)
class TableOptions(ReadOptions):
    """The options of ``format("openoutbox")``, where it reads, and ``format("openoutbox_deliverylog")``."""

    table: TableName = field(default_factory=TableName)
    pushdown: bool = False
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class EventOptions(ReadOptions):
    """The options of ``format("openoutbox_eventstore")``."""

    store_schema: str = DEFAULT_SCHEMA
    tenants: tuple[UUID, ...] | None = None
    types: tuple[str, ...] | None = None
    start: int | None = 0
    """The position after which the first event comes; None is the end, as it is when a stream begins."""
    end: int | None = None
    """The position up to which a batch reads; None is the end."""
    most_events: int | None = None
    """Of one micro-batch."""


class Given:
    """Options as they were given. Spark's know no case."""

    def __init__(self, format_: str, given: Mapping[str, str], known: Sequence[str]) -> None:
        """Raises ConfigError for an option that is not known, and where there is no URL."""
        self._names = {name.lower(): name for name in known}
        self._given = {name.lower(): value for name, value in given.items()}
        unknown = sorted(self._given.keys() - self._names.keys())
        if unknown:
            raise ConfigError(
                f"option {', '.join(unknown)}: not known to format {format_}; there are {', '.join(known)}"
            )
        if not self._given.get("url"):
            raise ConfigError('option url: missing; .option("url", "postgresql://user@host:5432/database")')
        check_url(self._given["url"], URL_OPTION)

    def text(self, name: str) -> str | None:
        """Raises ConfigError for nothing at all, and for what no database can hold."""
        value = self._given.get(name.lower())
        if value is not None and (not value or "\x00" in value):
            raise ConfigError(f"option {name}: empty, or with a NUL character; leave it out or give a value")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Words with commas between."""
        text = self._given.get(name.lower()) or ""
        names = tuple(word.strip() for word in text.split(",")) if text.strip() else ()
        if not all(names) or len(set(names)) != len(names):
            raise ConfigError(f"option {name}: {text!r}; write names with commas between, each once")
        return names

    def number(self, name: str, default: int, most: int, least: int = 1) -> int:
        """A whole number."""
        text = self._given.get(name.lower())
        if text is None:
            return default
        if not text.strip().isdecimal() or not least <= int(text) <= most:
            raise ConfigError(f"option {name}: {text!r} is not a number from {least} to {most}")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        text = (self._given.get(name.lower()) or str(default)).lower()
        if text not in ("true", "false"):
            raise ConfigError(f"option {name}: {text!r} is neither true nor false")
        return text == "true"

    def common(self) -> dict[str, object]:
        """What all readers have."""
        return {
            "url": self._given["url"],
            "columns": tuple(name.lower() for name in self.names("columns")),
            "partitions": self.number("numPartitions", DEFAULT_PARTITIONS, 10_000),
            "max_connections": self.number("maxConnections", DEFAULT_CONNECTIONS, 10_000),
        }


def outbox_options(given: Mapping[str, str]) -> TableOptions:
    """The options of one read of the outbox. Raises ConfigError, naming the option."""
    options = Given("openoutbox", given, (*_TABLE, "table"))
    return _table_options(options, TableName.parse(options.text("table") or DEFAULT_TABLE))


def delivery_options(given: Mapping[str, str]) -> TableOptions:
    """The options of one read of the delivery log. Raises ConfigError, naming the option."""
    options = Given("openoutbox_deliverylog", given, (*_TABLE, "logSchema"))
    return _table_options(options, TableName("attempts", checked_schema(options.text("logSchema") or _LOG_SCHEMA)))


def _table_options(options: Given, table: TableName) -> TableOptions:
    common: dict[str, object] = options.common()
    return TableOptions(
        **common,  # type: ignore[arg-type]
        table=table,
        pushdown=options.flag("pushdown", default=False),
        snapshot=options.text("snapshot"),
    )


def event_options(given: Mapping[str, str]) -> EventOptions:
    """The options of one read of the event store, batch or stream. Raises ConfigError, naming the option."""
    options = Given("openoutbox_eventstore", given, (*_EVENTS, *_SPARKS_OWN))
    common: dict[str, object] = options.common()
    most = options.number("maxEventsPerTrigger", 0, _LARGEST)
    return EventOptions(
        **common,  # type: ignore[arg-type]
        store_schema=checked_schema(options.text("storeSchema") or DEFAULT_SCHEMA),
        tenants=_tenants(options.names("tenants")) or None,
        types=options.names("types") or None,
        start=_position(options, "start", 0),
        end=_position(options, "end", None),
        most_events=most or None,
    )


def _tenants(names: Sequence[str]) -> tuple[UUID, ...]:
    try:
        return tuple(UUID(name) for name in names)
    except ValueError:
        raise ConfigError(f"option tenants: {', '.join(names)!r}; write the tenants' ids, UUIDs, with commas") from None


def _position(options: Given, name: str, default: int | None) -> int | None:
    """A position, or one of the words for the first and the last."""
    words = {None: default, "beginning": 0, "end": None}
    text = options.text(name)
    return words[text] if text in words else options.number(name, 0, _LARGEST, least=0)
