"""A replay: which events, and their copies into the outbox.

A copy has the event's id, type, key, body and ``created_at``, its headers and one more, ``replay_id``; how it fared
begins anew. Events come from the table or from an archive. A row that is in the table still, DELIVERED or DEAD, is
deleted in the transaction that inserts the copy, since headers of a row never change (the contract's invariant 5) and
an event id is there once; one that is PENDING or DELIVERING is on its way already and stays as it is.

Events of one key are inserted by one task, in the order of ``created_at``. What is inserted is recorded under the
replay's id, in the same transaction, for 90 days: the same replay, run again, inserts what is missing, nothing twice.
It is of the same events, too: times are compared with the moment at which it began first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from uuid import UUID

import psycopg
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.core.errors import ConfigError, SchemaError, StorageError
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import TableName
from relay.spark.connection import connect
from relay.spark.jobs.archive.files import read_archive, type_folder
from relay.spark.jobs.outbox import identify
from relay.spark.jobs.replay.arguments import Bound, ReplayArguments
from relay.spark.jobs.replay.copies import COUNTS, NAMES, Copying
from relay.spark.jobs.settled import SettledTable, in_time, settled_rows
from relay.spark.setup import make_ledger
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What came of it."""

    inserted: int
    """By this run."""
    total: int
    """By all runs of this replay."""
    recent: int
    """Left out, since the broker would drop them; a later run takes them."""
    waiting: int
    """Left out, since they are on their way already."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a replay would be of."""

    events: int
    delivered: int
    dead: int
    recent: int
    """Delivered within the duplicate window."""


def replay(spark: SparkSession, job: ReplayArguments) -> CopyResult:
    """Insert what is missing of a replay. Raises ConfigError when its id was used for other events, SchemaError where
    a table or a right is missing; what tasks had inserted by then stays, and is recorded.
    """
    statements = SparkStatements(job.table, DEFAULT_SCHEMA)
    with translating("beginning the replay"), connect(job.url) as connection:
        outbox = identify(connection, statements)
        outbox.require("replay into", outbox.may_read and outbox.may_insert and outbox.may_delete)
        _ensure_replays(connection, statements)
        connection.execute(statements.query("replay:retire_replays"))
        began, before = _begin(connection, statements, job, outbox.name)
    _, recent, waiting = _copy(spark, job, statements, began)
    with translating("counting the replay"), connect(job.url) as connection:
        total = int(_shown(connection, statements, job.replay_id)[3])
    return CopyResult(total - before, total, recent, waiting)


def find(spark: SparkSession, job: ReplayArguments) -> Found:
    """What ``replay`` would insert, if it began now."""
    statements = SparkStatements(job.table, DEFAULT_SCHEMA)
    with translating("looking at the outbox"), connect(job.url) as connection:
        now = identify(connection, statements).now
    recent = f.col("delivered_at") > f.lit(now - timedelta(seconds=job.nats_duplicate_window))
    whether = {"delivered": f.col("status") == "DELIVERED", "dead": f.col("status") == "DEAD", "recent": recent}
    counts = [f.count_if(condition).alias(name) for name, condition in whether.items()]
    row = _selected(spark, job, now, ("event_id",)).agg(f.count_distinct("event_id").alias("events"), *counts)
    found = row.collect()[0]
    lately = found["recent"] if job.nats_duplicate_window else 0
    return Found(found["events"], found["delivered"], found["dead"], lately)


def _copy(
    spark: SparkSession, job: ReplayArguments, statements: SparkStatements, began: datetime
) -> tuple[int, int, int]:
    copying = Copying(job.url, statements, job.replay_id, job.batch_rows, job.rate, job.nats_duplicate_window)

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from copying.copy(batches)

    events = _selected(spark, job, began, NAMES)
    tasks = job.max_connections if job.rate is None else 1
    ordered = events.repartition(tasks, f.coalesce("partition_key", "event_id")).sortWithinPartitions(
        "created_at", "event_id"
    )
    names = [column.split()[0] for column in COUNTS.split(", ")]
    sums = ordered.select(*NAMES).mapInArrow(copy, COUNTS).agg(*(f.coalesce(f.sum(name), f.lit(0)) for name in names))
    inserted, recent, waiting = sums.collect()[0]
    return inserted, recent, waiting


def _selected(spark: SparkSession, job: ReplayArguments, began: datetime, names: tuple[str, ...]) -> DataFrame:
    """Columns of the chosen events, and those by which they were job."""
    since = _at(job.since, began)
    until = min(_at(job.until, began) or began, began)
    needed = ("status", "delivered_at", "updated_at", "event_type", "partition_key", "headers")
    wanted = tuple(dict.fromkeys((*names, *needed)))
    if job.archive is None:
        rows = settled_rows(spark, SettledTable(job.url, job.table), wanted, job.selected_statuses, since, until)
    else:
        first = None if since is None else since.astimezone(UTC).date()
        rows = read_archive(spark, job.archive, first, until.astimezone(UTC).date())
        rows = rows.where(f.col("status").isin(*job.selected_statuses) & in_time(since, until))
    if job.types:
        rows = rows.where(_of_types(job.types, placed=job.archive is not None))
    if job.keys:
        rows = rows.where(f.col("partition_key").isin(*job.keys))
    if job.tenants:
        named = f.from_json("headers", "map<string,string>")
        rows = rows.where(f.try_element_at(named, f.lit(job.tenant_header)).isin(*job.tenants))
    return rows.select(*wanted)


def _of_types(types: tuple[str, ...], *, placed: bool) -> Column:
    """In an archive, a type's folder is asked for too, so that others are not read."""
    one = [f.col("event_type") == name for name in types]
    if placed:
        one = [there & (f.col("type") == type_folder(f.lit(name))) for there, name in zip(one, types, strict=True)]
    return reduce(or_, one)


def _at(bound: Bound | None, began: datetime) -> datetime | None:
    return began - bound if isinstance(bound, timedelta) else bound


def _begin(
    connection: SyncConnection, statements: SparkStatements, job: ReplayArguments, outbox: str
) -> tuple[datetime, int]:
    """When the replay began first, and how many events it has inserted."""
    selection = job.selection()
    values = {"replay_id": job.replay_id, "outbox": outbox, "selection": selection}
    connection.execute(statements.query("replay:begin_replay"), values)
    of_outbox, of_selection, began, inserted = _shown(connection, statements, job.replay_id)
    if (of_outbox, of_selection) != (outbox, selection):
        raise ConfigError(
            f"--replay-id: {job.replay_id} is a replay of {of_outbox}, {of_selection}; give another id to replay "
            "other events, or the same arguments to go on with that one"
        )
    return began, inserted


def _shown(connection: SyncConnection, statements: SparkStatements, replay_id: UUID) -> tuple[str, str, datetime, int]:
    row = connection.execute(statements.query("replay:show_replay"), {"replay_id": replay_id}).fetchone()
    if row is None:
        raise StorageError(f"replay {replay_id}: its record is gone")
    outbox, selection, began, inserted = row
    return outbox, selection, began, inserted


def _ensure_replays(connection: SyncConnection, statements: SparkStatements) -> None:
    replays = TableName("replays", statements.schema).quoted
    if connection.execute(statements.query("setup:find_table"), {"relation": replays}).fetchone() == (True,):
        return
    try:
        make_ledger(connection, statements)
    except psycopg.errors.InsufficientPrivilege:
        raise SchemaError(
            f"the record of replays in schema {statements.schema} is not there and this role may not make it; let the "
            "outbox's owner run: relay-cli spark setup --for replay --role ROLE"
        ) from None
