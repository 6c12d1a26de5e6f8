"""The options of the readers, by the parser of all formats (``relay.spark.optionparser``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_LOG_SCHEMA, DEFAULT_SCHEMA, TableName, checked_schema
from relay.spark.connection import DEFAULT_MAX_WAIT
from relay.spark.optionparser import DEFAULT_CONNECTIONS, OptionParser

_COMMON: Final = ("url", "columns", "numPartitions", "maxWait")
_TABLE: Final = (*_COMMON, "pushdown", "snapshot")
_EVENTS: Final = (*_COMMON, "storeSchema", "tenants", "types", "start", "end", "maxEventsPerTrigger")
_LARGEST: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of all readers; docs/guide/spark.md describes them."""

    url: str = field(repr=False)
    columns: tuple[str, ...] = ()
    partitions: int = DEFAULT_CONNECTIONS
    max_wait: float = DEFAULT_MAX_WAIT


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
    """The position before the first event; None is the end at the start of a stream."""
    end: int | None = None
    """The last position of a batch; None is the end."""
    most_events: int | None = None
    """Events of one micro-batch, at most."""


def outbox_options(options: Mapping[str, str]) -> TableOptions:
    """The options of one read of the outbox. Raises ConfigError, naming the option."""
    values = OptionParser("openoutbox", options, (*_TABLE, "dbtable", "table"), streams=False)
    return _table_options(values, values.table())


def delivery_options(options: Mapping[str, str]) -> TableOptions:
    """The options of one read of the delivery log. Raises ConfigError, naming the option."""
    values = OptionParser("openoutbox_deliverylog", options, (*_TABLE, "logSchema"), streams=False)
    return _table_options(values, TableName("attempts", checked_schema(values.text("logSchema") or DEFAULT_LOG_SCHEMA)))


def _table_options(values: OptionParser, table: TableName) -> TableOptions:
    return TableOptions(
        url=values.url,
        columns=_columns(values),
        partitions=values.connections(),
        max_wait=values.max_wait(),
        table=table,
        pushdown=values.flag("pushdown", default=False),
        snapshot=values.text("snapshot"),
    )


def event_options(options: Mapping[str, str]) -> EventOptions:
    """The options of one read of the event store, batch or stream. Raises ConfigError, naming the option."""
    values = OptionParser("openoutbox_eventstore", options, _EVENTS, streams=True)
    return EventOptions(
        url=values.url,
        columns=_columns(values),
        partitions=values.connections(),
        max_wait=values.max_wait(),
        store_schema=checked_schema(values.text("storeSchema") or DEFAULT_SCHEMA),
        tenants=_tenants(values.names("tenants")) or None,
        types=values.names("types") or None,
        start=_position(values, "start", 0),
        end=_position(values, "end", None),
        most_events=values.number("maxEventsPerTrigger", 0, _LARGEST) or None,
    )


def _columns(values: OptionParser) -> tuple[str, ...]:
    return tuple(name.lower() for name in values.names("columns"))


def _tenants(names: Sequence[str]) -> tuple[UUID, ...]:
    try:
        return tuple(UUID(name) for name in names)
    except ValueError:
        raise ConfigError(f"option tenants: {', '.join(names)!r}; write the tenants' ids, UUIDs, with commas") from None


def _position(values: OptionParser, name: str, default: int | None) -> int | None:
    """A position, ``beginning`` or ``end``."""
    words = {None: default, "beginning": 0, "end": None}
    text = values.text(name)
    return words[text] if text in words else values.number(name, 0, _LARGEST, least=0)
