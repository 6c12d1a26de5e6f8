"""The arguments of the job ``archive``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relay.postgres.sql import TableName
from relay.spark.jobs.arguments import (
    AGE,
    FLAG,
    STATUS,
    Arguments,
    choice,
    count,
    json_summary,
    option,
    outbox_table,
    outbox_url,
    spark_remote,
)

_OUTBOX = "the outbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveArguments(Arguments):
    """Move delivered and dead events above an age from the outbox to Parquet files or tables."""

    name: ClassVar[str] = "archive"

    path: str = option(
        "the folder, on any file system that Spark supports; for iceberg the table, CATALOG.NAMESPACE.TABLE",
        "ARCHIVE",
        flag="ARCHIVE",
        required=True,
    )
    format: str | None = option(
        "of a new archive: files, or tables of Delta Lake or Iceberg (default: parquet); an archive keeps its format",
        choice("parquet", "delta", "iceberg"),
    )
    older_than: float = option("since delivery or death, such as 7d or 12h; 0 is all", AGE, default="7d")
    statuses: tuple[str, ...] = option("repeatable (default: both)", STATUS, flag="--status")
    keep: bool = option("leave the rows in the table; a later run without --keep deletes them", FLAG)
    dry_run: bool = option("count the rows to archive; change nothing", FLAG)
    as_json: bool = json_summary()
    url: str = outbox_url(group=_OUTBOX, required=True)
    table: TableName = outbox_table(group=_OUTBOX)
    max_connections: int = option("connections that delete, at most", count(1000), default="4", group=_OUTBOX)
    batch_rows: int = option("rows of one deletion", count(100_000), default="1000", group=_OUTBOX)
    remote: str | None = spark_remote()

    examples: ClassVar[str] = """\
examples:
  events that were delivered, or died, more than a week ago, to Parquet, and out of the table:
    spark-submit archive.py s3a://lake/outbox --older-than 7d --url-file /secrets/outbox-url
  the same into tables of Delta Lake, for which Spark needs a package and settings: docs/guide/spark-archive.md
    spark-submit archive.py s3a://lake/outbox --format delta --older-than 7d --url-file /secrets/outbox-url
  count them first, and change nothing:
    relay-cli spark archive /data/outbox --older-than 7d --dry-run
  only delivered events, and leave the rows in the table:
    relay-cli spark archive /data/outbox --older-than 30d --status delivered --keep

After a crash at any moment run it again: no event is lost, and none is archived twice.
"""
