"""The arguments of ``archive``: what may be given, its help, and what is made of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from relay.core.durations import parse_age
from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_TABLE, TableName
from relay.spark.jobs.archive.steps import ArchiveOptions
from relay.spark.jobs.arguments import add_outbox, number, outbox_url
from relay.spark.jobs.settled import STATUSES

_EXAMPLES: Final = """\
examples:
  what was delivered, or died, more than a week ago, to Parquet, and out of the table:
    spark-submit archive.py s3a://lake/outbox --older-than 7d --url-file /secrets/outbox-url
  count it first, and change nothing:
    relay-cli spark archive /data/outbox --older-than 7d --dry-run
  only what was delivered, and leave the rows in the table:
    relay-cli spark archive /data/outbox --older-than 30d --status delivered --keep

Killed at any moment, it is simply run again: nothing is lost, and nothing is archived twice.
"""


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """One run of the job."""

    options: ArchiveOptions
    dry_run: bool
    as_json: bool


def read_archive_arguments(
    program: str, given: Sequence[str], *, url: str | None = None, table: str | None = None
) -> ArchiveJob:
    """What is to be done; ``url`` and ``table`` are used where none is given. Ends the process for ``--help``.

    Raises ConfigError for invalid arguments.
    """
    args = _parser(program).parse_args(list(given))
    try:
        older_than = parse_age(args.older_than)
    except ValueError as error:
        raise ConfigError(f"--older-than: {error}") from None
    options = ArchiveOptions(
        url=outbox_url(args, url),
        path=args.archive,
        table=TableName.parse(args.table or table or DEFAULT_TABLE),
        older_than=older_than,
        statuses=tuple(dict.fromkeys(args.status)) if args.status else STATUSES,
        keep=args.keep,
        connections=number("--max-connections", args.max_connections, 1000),
        batch_rows=number("--batch-rows", args.batch_rows, 100_000),
    )
    return ArchiveJob(options, args.dry_run, args.json)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Move delivered and dead events that are old enough from the outbox to Parquet files.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("archive", metavar="ARCHIVE", help="the folder, on any file system that Spark knows")
    parser.add_argument(
        "--older-than",
        metavar="AGE",
        default="7d",
        help="since delivery or death: a number and d, h or m (default: 7d); 0 is everything",
    )
    parser.add_argument(
        "--status",
        action="append",
        type=str.upper,
        choices=STATUSES,
        metavar="STATUS",
        help="delivered or dead; repeatable (default: both)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the rows in the table; a run without it deletes them"
    )
    parser.add_argument("--dry-run", action="store_true", help="count what would be archived; change nothing")
    parser.add_argument("--json", action="store_true", help="the summary as one JSON object")
    add_outbox(parser, "most connections that delete (default: 4)")
    parser.add_argument("--batch-rows", metavar="N", default="1000", help="rows of one deletion (default: 1000)")
    return parser
