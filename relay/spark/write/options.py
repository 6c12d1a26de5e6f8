"""What a user of the data source may set, read once on the driver and checked before anything is written.

Whatever is wrong is a ConfigError that names the option. The URL, which may hold a password, is in no ``repr``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from uuid import UUID

from relay.core.durations import parse_duration
from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_TABLE, TableName, is_identifier
from relay.spark.statements import DEFAULT_SCHEMA

DEFAULT_CONNECTIONS: Final = 8
DEFAULT_BATCH_ROWS: Final = 50_000
DEFAULT_MAX_AGE: Final = 86_400.0
"""Seconds without a sign of life after which a run of another machine counts as dead."""

_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})


class Commit(StrEnum):
    """When rows become visible."""

    ATOMIC = "atomic"
    """All at once, when every task is done."""
    PARTITION = "partition"
    """Each task's at its end."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of ``format("openoutbox")``; docs/spark.md says what each is for."""

    url: str = field(repr=False)
    table: TableName = field(default_factory=TableName)
    event_type: str | None = None
    id_columns: tuple[str, ...] = ()
    job: str | None = None
    commit: Commit = Commit.ATOMIC
    max_connections: int = DEFAULT_CONNECTIONS
    batch_rows: int = DEFAULT_BATCH_ROWS
    staging_schema: str = DEFAULT_SCHEMA
    staging_max_age: float = DEFAULT_MAX_AGE
    query_id: str | None = None
    run_id: UUID | None = None


_FIELDS: Final = {
    "url": "url",
    "table": "table",
    "eventtype": "eventType",
    "idcolumns": "idColumns",
    "job": "job",
    "commit": "commit",
    "maxconnections": "maxConnections",
    "batchrows": "batchRows",
    "stagingschema": "stagingSchema",
    "stagingmaxage": "stagingMaxAge",
    "queryid": "queryId",
    "runid": "runId",
}
"""Spark's options know no case; this is how each is written."""


def read_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of one write. Raises ConfigError, naming the option, also for one that is not known."""
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(options.keys() - _FIELDS.keys() - _SPARKS_OWN)
    if unknown:
        known = ", ".join(_FIELDS.values())
        raise ConfigError(f"option {', '.join(unknown)}: not known to format openoutbox; there are {known}")
    if not options.get("url"):
        raise ConfigError('option url: missing; .option("url", "postgresql://user@host:5432/database")')
    return WriteOptions(
        url=options["url"],
        table=TableName.parse(options.get("table") or DEFAULT_TABLE),
        event_type=_text(options, "eventtype"),
        id_columns=_names(options.get("idcolumns", "")),
        job=_text(options, "job"),
        commit=_commit(options.get("commit") or Commit.ATOMIC),
        max_connections=_number(options, "maxconnections", DEFAULT_CONNECTIONS, 10_000),
        batch_rows=_number(options, "batchrows", DEFAULT_BATCH_ROWS, 10_000_000),
        staging_schema=_schema(options.get("stagingschema") or DEFAULT_SCHEMA),
        staging_max_age=_seconds(options, "stagingmaxage", DEFAULT_MAX_AGE),
        query_id=_text(options, "queryid"),
        run_id=_uuid(options.get("runid")),
    )


def _text(options: Mapping[str, str], name: str) -> str | None:
    value = options.get(name)
    if value is None:
        return None
    if not value or "\x00" in value:
        raise ConfigError(f"option {_FIELDS[name]}: empty, or with a NUL character; leave it out or give a value")
    return value


def _names(text: str) -> tuple[str, ...]:
    if not text.strip():
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"option idColumns: {text!r}; write column names with commas between, each once")
    return names


def _commit(text: str) -> Commit:
    try:
        return Commit(text.lower())
    except ValueError:
        raise ConfigError(f"option commit: {text!r} is neither atomic nor partition") from None


def _number(options: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or not 1 <= int(text) <= most:
        raise ConfigError(f"option {_FIELDS[name]}: {text!r} is not a number from 1 to {most}")
    return int(text)


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"option {_FIELDS[name]}: {error}") from None


def _schema(text: str) -> str:
    if not is_identifier(text):
        raise ConfigError(f"option stagingSchema: {text!r} is not a schema's name of 1 to 63 bytes")
    return text


def _uuid(text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise ConfigError(f"option runId: {text!r} is not a UUID") from None
