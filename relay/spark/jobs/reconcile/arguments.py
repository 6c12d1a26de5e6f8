"""The arguments of ``reconcile``: what may be given, its help, and what is made of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from relay.core.errors import ConfigError
from relay.core.headers import REPLAY_HEADER
from relay.postgres.url import check_url
from relay.spark.jobs.arguments import (
    add_output,
    add_session,
    moment,
    names,
    number,
    pairs,
    read_options,
    session_options,
)
from relay.spark.jobs.program import secret
from relay.spark.jobs.reconcile.compare import KINDS
from relay.spark.jobs.reconcile.fingerprints import FIELDS

_EXAMPLES: Final = """\
examples:
  the outbox against Kafka, all topics that its rows name:
    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 reconcile.py \\
      --url-file /secrets/outbox-url --kafka broker1:9092,broker2:9092 --output /reports/monday
  the last day only, and the archive beside the table:
    spark-submit … reconcile.py --url-file /secrets/outbox-url --archive s3a://lake/outbox \\
      --since 2026-03-10T00:00:00Z --kafka broker1:9092 --output s3a://lake/reports/2026-03-10
  a broker that wants a login, its properties in a file (security.protocol=SASL_SSL and so on):
    relay-cli spark reconcile --kafka broker:9093 --kafka-options-file kafka.properties \\
      --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 --output report
  the archive against what a consumer wrote, whose columns have names of their own:
    relay-cli spark reconcile --archive /data/archive --consumer /data/orders \\
      --consumer-columns event_id=id,payload=body,key=customer --output report

exit codes: 0 nothing found, 1 failed, 2 wrong arguments, 3 findings, 130 interrupted
"""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A table that a consumer wrote."""

    paths: tuple[str, ...]
    table: str | None
    format: str
    options: tuple[tuple[str, str], ...] = field(repr=False)
    columns: dict[str, str]


@dataclass(frozen=True, slots=True)
class Reconcile:
    """One run of the job. Either ``kafka`` or ``consumer`` is there, and at least one of ``url`` and ``archive``."""

    output: str
    url: str | None = field(default=None, repr=False)
    table: str | None = None
    archive: str | None = None
    kafka: str | None = None
    kafka_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    topics: tuple[str, ...] = ()
    consumer: Consumer | None = None
    since: datetime | None = None
    until: datetime | None = None
    event_types: tuple[str, ...] = ()
    ignored: tuple[str, ...] = (REPLAY_HEADER,)
    tolerated: frozenset[str] = frozenset()
    sample: int = 100
    as_json: bool = False
    session: tuple[tuple[str, str], ...] = ()
    read_options: tuple[tuple[str, str], ...] = ()


def read_reconcile_arguments(
    program: str, given: Sequence[str], *, url: str | None = None, table: str | None = None
) -> Reconcile:
    """What is to be done; ``url`` and ``table`` are used where none is given. Ends the process for ``--help``.

    Raises ConfigError for invalid arguments.
    """
    args = _parser(program).parse_args(list(given))
    found = secret("--url-file", args.url_file, args.url) or url
    if found is None and not args.archive:
        raise ConfigError("--url, --url-file or --archive: missing; what was to be sent?")
    if found is not None:
        check_url(found, "--url")
    since, until = moment("--since", args.since), moment("--until", args.until)
    if since and until and since >= until:
        raise ConfigError("--since and --until: the first must be earlier than the second")
    consumer = _consumer(args)
    if bool(args.kafka) == bool(consumer):
        raise ConfigError("--kafka, or --consumer or --consumer-table: give one of the two; where has it arrived?")
    return Reconcile(
        output=args.output.rstrip("/") or args.output,
        url=found,
        table=args.table or table,
        archive=args.archive,
        kafka=args.kafka,
        kafka_options=_kafka_options(args),
        topics=names(args.topics),
        consumer=consumer,
        since=since,
        until=until,
        event_types=names(args.event_type),
        ignored=(REPLAY_HEADER, *(args.ignore_header or ())),
        tolerated=_kinds(args.tolerate),
        sample=number("--sample", args.sample, 10_000),
        as_json=args.json,
        session=session_options(args),
        read_options=read_options(args),
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Prove that what was written into the outbox has arrived: compare rows with messages.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sent = parser.add_argument_group("what was to be sent: the outbox, an archive, or both")
    add_database(sent, "the outbox table; default: openoutbox_events")
    sent.add_argument("--archive", metavar="PATH", help="an archive of relay-cli spark archive")
    sent.add_argument("--since", metavar="TIME", help="only events created from then on, such as 2026-03-10T00:00:00Z")
    sent.add_argument("--until", metavar="TIME", help="only events created before then")
    sent.add_argument("--event-type", metavar="A,B", help="only events of these types")
    there = parser.add_argument_group("where it has arrived: Kafka")
    there.add_argument("--kafka", metavar="HOST:PORT,…", help="brokers to ask first")
    there.add_argument("--topics", metavar="A,B", help="read these; default: the types of the events")
    there.add_argument("--kafka-option", action="append", metavar="NAME=VALUE", help="of Spark's source; repeatable")
    there.add_argument("--kafka-options-file", metavar="FILE", help="lines NAME=VALUE of Kafka's client, secrets too")
    _add_consumer(parser.add_argument_group("or a table that a consumer wrote"))
    result = parser.add_argument_group("the result")
    add_output(result)
    result.add_argument("--sample", metavar="N", default="100", help="findings of a kind on the page (default: 100)")
    result.add_argument("--tolerate", metavar="KIND,…", help=f"no reason for exit code 3: of {', '.join(KINDS)}")
    result.add_argument("--ignore-header", action="append", metavar="NAME", help="not compared; replay_id never is")
    add_session(parser)
    return parser


def _add_consumer(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--consumer", action="append", metavar="PATH", help="files or a folder; repeatable")
    group.add_argument("--consumer-table", metavar="NAME", help="a table of Spark's catalog")
    group.add_argument("--consumer-format", metavar="FORMAT", help="any that Spark reads (default: parquet)")
    group.add_argument("--consumer-option", action="append", metavar="NAME=VALUE", help="of the format; repeatable")
    group.add_argument(
        "--consumer-columns",
        metavar="FIELD=COLUMN,…",
        help=f"which column is what; fields: {', '.join(FIELDS)}. Default: event_id=event_id, and nothing else",
    )


def add_database(group: argparse._ArgumentGroup, table: str) -> None:
    """Where rows are read from, and how many connections may do so."""
    group.add_argument("--url", help="postgresql://user@host:5432/database; without the password: others may read it")
    group.add_argument("--url-file", metavar="FILE", help="a file with the URL, password and all")
    group.add_argument("--table", metavar="[SCHEMA.]TABLE", help=table)
    group.add_argument("--partitions", metavar="N", default="16", help="tasks that read the table (default: 16)")
    group.add_argument("--max-connections", metavar="N", default="4", help="most of them at a time (default: 4)")


def _consumer(args: argparse.Namespace) -> Consumer | None:
    if args.consumer and args.consumer_table:
        raise ConfigError("--consumer and --consumer-table: give one of the two")
    if not (args.consumer or args.consumer_table or args.consumer_format):
        return None
    columns = {"event_id": "event_id", **dict(pairs("--consumer-columns", names(args.consumer_columns)))}
    unknown = sorted(columns.keys() - set(FIELDS))
    if unknown:
        raise ConfigError(f"--consumer-columns: {', '.join(unknown)}: no such field; there are {', '.join(FIELDS)}")
    return Consumer(
        paths=tuple(args.consumer or ()),
        table=args.consumer_table,
        format=args.consumer_format or "parquet",
        options=pairs("--consumer-option", args.consumer_option),
        columns=columns,
    )


def _kafka_options(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    given = list(pairs("--kafka-option", args.kafka_option))
    if args.kafka_options_file is not None:
        text = secret("--kafka-options-file", args.kafka_options_file, None) or ""
        lines = [line.strip() for line in text.splitlines()]
        parts = [line.partition("=") for line in lines if line and not line.startswith("#")]
        if not all(name.strip() and sign for name, sign, _ in parts):
            where = Path(args.kafka_options_file).name
            raise ConfigError(f"--kafka-options-file: {where}: a line that is not NAME=VALUE")
        given += [(f"kafka.{name.strip().removeprefix('kafka.')}", value.strip()) for name, _, value in parts]
    fixed = {"kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign", "includeheaders"}
    taken = [name for name, _ in given if name.lower() in fixed]
    if taken:
        raise ConfigError(f"--kafka-option: {', '.join(taken)}: is set by --kafka and --topics")
    return tuple(given)


def _kinds(text: str | None) -> frozenset[str]:
    given = frozenset(names(text))
    if not given <= set(KINDS):
        raise ConfigError(f"--tolerate: {', '.join(sorted(given - set(KINDS)))}: there are {', '.join(KINDS)}")
    return given
