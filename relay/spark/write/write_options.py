"""The options of a write to ``format("openoutbox")``, by the parser of all formats (``relay.spark.optionparser``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from uuid import UUID

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName, is_identifier
from relay.spark.connection import DEFAULT_MAX_WAIT
from relay.spark.optionparser import DEFAULT_CONNECTIONS, OptionParser
from relay.spark.statements import DEFAULT_SCHEMA

DEFAULT_BATCH_ROWS: Final = 50_000
MOST_BATCH_ROWS: Final = 10_000_000
_LARGEST: Final = (1 << 63) - 1
DEFAULT_MAX_AGE: Final = 86_400.0
"""Seconds without a sign of life after which a run of another machine counts as dead."""


class Commit(StrEnum):
    """When rows become visible."""

    ATOMIC = "atomic"
    """All at once, when every task is done."""
    PARTITION = "partition"
    """Each task's rows at its end."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of ``format("openoutbox")``; docs/guide/spark.md says what each is for."""

    url: str = field(repr=False)
    table: TableName = field(default_factory=TableName)
    event_type: str | None = None
    id_columns: tuple[str, ...] = ()
    job: str | None = None
    commit: Commit = Commit.ATOMIC
    max_connections: int = DEFAULT_CONNECTIONS
    max_wait: float = DEFAULT_MAX_WAIT
    batch_rows: int = DEFAULT_BATCH_ROWS
    staging_schema: str = DEFAULT_SCHEMA
    staging_max_age: float = DEFAULT_MAX_AGE
    query_id: str | None = None
    checkpoint: str | None = None
    """Spark's option ``checkpointLocation``."""
    moved_from: str | None = None
    """The checkpoint's former location."""
    run_id: UUID | None = None
    txn_app_id: str | None = None
    txn_version: int | None = None


_KNOWN: Final = (
    "url", "dbtable", "table", "eventType", "idColumns", "commit", "numPartitions", "maxWait", "batchsize",
    "stagingSchema", "stagingMaxAge", "checkpointMovedFrom", "runId",
    "txnAppId", "txnVersion",
)  # fmt: skip
_FORMER: Final = {"batchRows": "batchsize", "job": "txnAppId", "queryId": "txnAppId"}


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of one write. Raises ConfigError, naming the option, also for an unknown one."""
    values = OptionParser("openoutbox", options, _KNOWN, streams=True, former=_FORMER)
    values.rename("batchRows", "batchsize")
    txn_app_id, txn_version = values.text("txnAppId"), values.text("txnVersion")
    if txn_version is not None and txn_app_id is None:
        raise ConfigError("option txnVersion: only with txnAppId; set both, or neither")
    name = txn_app_id if txn_version is None else None
    return WriteOptions(
        url=values.url,
        table=values.table(),
        event_type=values.text("eventType"),
        id_columns=values.names("idColumns"),
        job=values.text("job") or name,
        commit=values.choice("commit", Commit.ATOMIC),
        max_connections=values.connections(),
        max_wait=values.max_wait(),
        batch_rows=values.number("batchsize", DEFAULT_BATCH_ROWS, MOST_BATCH_ROWS),
        staging_schema=_schema(values.text("stagingSchema") or DEFAULT_SCHEMA),
        staging_max_age=values.seconds("stagingMaxAge", DEFAULT_MAX_AGE),
        query_id=values.text("queryId") or name,
        checkpoint=values.text("checkpointLocation"),
        moved_from=values.text("checkpointMovedFrom"),
        run_id=values.uuid("runId"),
        txn_app_id=None if txn_version is None else txn_app_id,
        txn_version=None if txn_version is None else values.number("txnVersion", 0, _LARGEST, least=0),
    )


def _schema(name: str) -> str:
    if not is_identifier(name):
        raise ConfigError(f"option stagingSchema: {name!r} is not a schema name of 1 to 63 bytes")
    return name
