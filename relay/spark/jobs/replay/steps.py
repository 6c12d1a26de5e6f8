"""A replay: select events, and insert copies of them into the outbox.

A copy has the event's id, type, key, body and ``created_at``, its headers and one more, ``replay_id``; it is PENDING,
with no attempt. Events come from the table or from an archive. A row that is still in the table, DELIVERED or DEAD, is
deleted in the transaction that inserts the copy, since headers of a row never change (the contract's invariant 5) and
an event id is unique. A row that is PENDING or DELIVERING will be sent anyway and stays as it is.

Events of one key are inserted by one task, in the order of ``created_at``. Each insert is recorded under the replay's
id, in the same transaction, for 90 days: the same replay, run again, inserts the missing events, and none twice. It
selects the same events, too: ages count from its first start.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from uuid import UUID

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.core.errors import ConfigError, SchemaError, StorageError
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import TableName
from relay.spark.connection import connect, transaction
from relay.spark.jobs.archive.formats import read_archive
from relay.spark.jobs.archive.model import type_folder, utc_day
from relay.spark.jobs.outbox import identify
from relay.spark.jobs.replay.arguments import Bound, ReplayArguments
from relay.spark.jobs.replay.copies import COUNTS, NAMES, Copying
from relay.spark.jobs.settled import settled_at, settled_rows, within
from relay.spark.setup import create_ledger
from relay.spark.statements import SparkStatements


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The counts of a replay."""

    inserted: int
    """Copies inserted by this run."""
    total: int
    """Copies inserted by all runs of this replay."""
    recent: int
    """Events left out, since the broker would drop them; a later run inserts them."""
    waiting: int
    """Events left out, since they are PENDING or DELIVERING already."""


@dataclass(frozen=True, slots=True)
class ReplayPreview:
    """The events that a replay would insert."""

    events: int
    delivered: int
    dead: int
    recent: int
    """Delivered within the duplicate window."""


def replay(spark: SparkSession, job: ReplayArguments) -> ReplayResult:
    """Insert the missing copies of a replay.

    Raises ConfigError when its id was used for other events, SchemaError for a missing table or right. Copies that were
    inserted before an error stay, and are recorded.
    """
    statements = SparkStatements(job.table)
    with translating("beginning the replay"), connect(job.url) as connection:
        outbox = identify(connection, statements)
        outbox.require("replay into", outbox.may_read and outbox.may_insert and outbox.may_delete)
        _ensure_replays(connection, statements)
        with transaction(connection):
            connection.execute(statements.query("replay:retire_replays"))
            start, before = _begin(connection, statements, job, outbox.name)
    _, recent, waiting = _copy(spark, job, statements, start)
    with translating("counting the replay"), connect(job.url) as connection, transaction(connection):
        total = int(_record(connection, statements, job.replay_id)[3])
    return ReplayResult(total - before, total, recent, waiting)


def preview(spark: SparkSession, job: ReplayArguments) -> ReplayPreview:
    """The events that ``replay`` would insert, if it started now."""
    statements = SparkStatements(job.table)
    with translating("reading the catalog"), connect(job.url) as connection:
        now = identify(connection, statements).now
    recent = f.col("delivered_at") > f.lit(now - timedelta(seconds=job.nats_duplicate_window))
    conditions = {"delivered": f.col("status") == "DELIVERED", "dead": f.col("status") == "DEAD", "recent": recent}
    counts = [f.count_if(condition).alias(name) for name, condition in conditions.items()]
    row = _selected(spark, job, now, ("event_id",)).agg(f.count_distinct("event_id").alias("events"), *counts)
    counted = row.collect()[0]
    recent_events = counted["recent"] if job.nats_duplicate_window else 0
    return ReplayPreview(counted["events"], counted["delivered"], counted["dead"], recent_events)


def _copy(
    spark: SparkSession, job: ReplayArguments, statements: SparkStatements, start: datetime
) -> tuple[int, int, int]:
    copying = Copying(job.url, statements, job.replay_id, job.batch_rows, job.rate, job.nats_duplicate_window)
    events = _selected(spark, job, start, NAMES)
    tasks = job.max_connections if job.rate is None else 1
    ordered = events.repartition(tasks, f.coalesce("partition_key", "event_id")).sortWithinPartitions(
        "created_at", "event_id"
    )
    names = [column.split()[0] for column in COUNTS.split(", ")]
    counts = ordered.select(*NAMES).mapInArrow(copying.copy, COUNTS)
    sums = counts.agg(*(f.coalesce(f.sum(name), f.lit(0)) for name in names))
    inserted, recent, waiting = sums.collect()[0]
    return inserted, recent, waiting


def _selected(spark: SparkSession, job: ReplayArguments, start: datetime, names: tuple[str, ...]) -> DataFrame:
    """Columns of the selected events, and the columns that select them."""
    since = _at(job.since, start)
    until = min(_at(job.until, start) or start, start)
    selecting = ("status", "delivered_at", "updated_at", "event_type", "partition_key", "headers")
    columns = tuple(dict.fromkeys((*names, *selecting)))
    if job.archive is None:
        rows = settled_rows(spark, job.url, job.table, columns, job.selected_statuses, since, until)
    else:
        rows = read_archive(spark, job.archive, utc_day(since), utc_day(until))
        rows = within(rows.where(f.col("status").isin(*job.selected_statuses)), settled_at(), since, until)
    if job.types:
        rows = rows.where(_of_types(job.types, placed=job.archive is not None))
    if job.keys:
        rows = rows.where(f.col("partition_key").isin(*job.keys))
    if job.tenants:
        headers = f.from_json("headers", "map<string,string>")
        rows = rows.where(f.try_element_at(headers, f.lit(job.tenant_header)).isin(*job.tenants))
    return rows.select(*columns)


def _of_types(types: tuple[str, ...], *, placed: bool) -> Column:
    """In an archive (``placed``) the condition names the types' folders too, so that Spark reads no other folder."""
    conditions = [f.col("event_type") == name for name in types]
    if placed:
        folders = [f.col("type") == type_folder(f.lit(name)) for name in types]
        conditions = [event & folder for event, folder in zip(conditions, folders, strict=True)]
    return reduce(or_, conditions)


def _at(bound: Bound | None, start: datetime) -> datetime | None:
    return start - bound if isinstance(bound, timedelta) else bound


def _begin(
    connection: SyncConnection, statements: SparkStatements, job: ReplayArguments, outbox: str
) -> tuple[datetime, int]:
    """The first start of the replay, and the number of events that it has inserted."""
    selection = job.selection()
    values = {"replay_id": job.replay_id, "outbox": outbox, "selection": selection}
    connection.execute(statements.query("replay:begin_replay"), values)
    recorded_outbox, recorded_selection, start, inserted = _record(connection, statements, job.replay_id)
    if (recorded_outbox, recorded_selection) != (outbox, selection):
        raise ConfigError(
            f"--replay-id: {job.replay_id} is a replay of {recorded_outbox}, {recorded_selection}; give another id "
            "to replay other events, or the same arguments to resume that replay"
        )
    return start, inserted


def _record(connection: SyncConnection, statements: SparkStatements, replay_id: UUID) -> tuple[str, str, datetime, int]:
    row = connection.execute(statements.query("replay:show_replay"), {"replay_id": replay_id}).fetchone()
    if row is None:
        raise StorageError(f"replay {replay_id}: its record was deleted")
    outbox, selection, start, inserted = row
    return outbox, selection, start, inserted


def _ensure_replays(connection: SyncConnection, statements: SparkStatements) -> None:
    replays = TableName("replays", statements.schema).quoted
    if connection.execute(statements.query("setup:find_table"), {"relation": replays}).fetchone() == (True,):
        return
    try:
        create_ledger(connection, statements)
    except SchemaError:  # a missing right
        raise SchemaError(
            f"the record of replays in schema {statements.schema} is missing and this role may not create it; the "
            "outbox's owner must run: relay-cli spark setup --for replay --role ROLE"
        ) from None
