"""The arguments of ``ingest``: what may be given, its help, and what is made of it.

By argparse, since on a cluster there is this wheel and not everything that ``relay-cli`` needs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from relay.core.errors import ConfigError
from relay.spark.jobs.arguments import names, pairs
from relay.spark.jobs.ingest.shape import Shape
from relay.spark.jobs.program import secret

_EXAMPLES: Final = """\
examples:
  Parquet files, one event a row, their order number as identity (running it again adds nothing):
    spark-submit ingest.py /data/orders --event-type orders.created \\
      --key customer --id-columns order_number --url-file /secrets/outbox-url
  look at ten rows first, and write nothing:
    spark-submit ingest.py /data/orders --event-type orders.created --key customer --dry-run
  CSV with a header, some columns as the body, two as headers:
    relay-cli spark ingest orders.csv --format csv --option header=true --event-type orders.created \\
      --payload-columns number,customer,total --headers region=region,trace=trace_id
  a table of the catalog, each task's rows at its end, over at most 4 connections:
    spark-submit ingest.py --source-table sales.orders --event-type-column kind \\
      --id-columns id --commit partition --max-connections 4 --url-file /secrets/outbox-url
  new files of a folder as they appear, exactly once:
    spark-submit ingest.py /data/incoming --format json --stream --checkpoint /data/checkpoint \\
      --trigger '10 seconds' --event-type orders.created --url-file /secrets/outbox-url
"""


@dataclass(frozen=True, slots=True)
class Ingest:
    """One run of the job."""

    shape: Shape
    inputs: tuple[str, ...] = ()
    format: str = "parquet"
    source_table: str | None = None
    source_options: tuple[tuple[str, str], ...] = ()
    schema: str | None = None
    where: str | None = None
    partitions: int | None = None
    url: str | None = field(default=None, repr=False)
    write_options: tuple[tuple[str, str], ...] = ()
    stream: bool = False
    checkpoint: str | None = None
    trigger: str = "available-now"
    dry_run: bool = False


def read_arguments(program: str, given: Sequence[str], *, url: str | None = None, table: str | None = None) -> Ingest:
    """What is to be done; ``url`` and ``table`` are used where none is given. Ends the process for ``--help``.

    Raises ConfigError for invalid arguments.
    """
    args = _parser(program).parse_args(list(given))
    if bool(args.event_type) == bool(args.event_type_column):
        raise ConfigError("--event-type NAME or --event-type-column COLUMN: give one of the two")
    if args.raw_payload and args.payload_columns:
        raise ConfigError("--raw-payload and --payload-columns: give one of the two, or neither for all columns")
    if args.event_id and args.id_columns:
        raise ConfigError("--event-id and --id-columns: give one of the two, or neither")
    if args.source_table and args.input:
        raise ConfigError("--source-table: there are input paths too; give one of the two")
    if args.stream and args.commit == "partition":
        raise ConfigError("--commit partition: not for a stream; only a whole micro-batch can be written exactly once")
    if args.stream and not args.checkpoint:
        raise ConfigError("--stream: give --checkpoint too, the folder by which it goes on where it stopped")
    return Ingest(
        shape=_shape(args),
        inputs=tuple(args.input),
        format=args.format,
        source_table=args.source_table,
        source_options=pairs("--option", args.option),
        schema=args.schema,
        where=args.where,
        partitions=args.partitions,
        url=secret("--url-file", args.url_file, args.url) or url,
        write_options=_write_options(args, table),
        stream=args.stream,
        checkpoint=args.checkpoint,
        trigger=args.trigger,
        dry_run=args.dry_run,
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Write what Spark can read into the outbox: files, a table or a stream.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_source(parser.add_argument_group("the source"))
    _add_events(parser.add_argument_group("the events"))
    _add_outbox(parser.add_argument_group("the outbox"))
    stream = parser.add_argument_group("streams")
    stream.add_argument("--stream", action="store_true", help="read the source as a stream")
    stream.add_argument("--checkpoint", metavar="FOLDER", help="where the stream remembers how far it is")
    stream.add_argument(
        "--trigger",
        metavar="WHEN",
        default="available-now",
        help="available-now (all there is, then end; the default) or an interval such as '10 seconds'",
    )
    parser.add_argument("--dry-run", action="store_true", help="show ten rows as they would be inserted; write nothing")
    return parser


def _add_source(group: argparse._ArgumentGroup) -> None:
    group.add_argument("input", nargs="*", metavar="PATH", help="files or folders")
    group.add_argument("--format", default="parquet", help="any that Spark reads: parquet (the default), csv, json, …")
    group.add_argument("--source-table", metavar="NAME", help="a table of Spark's catalog instead of paths")
    group.add_argument("--option", action="append", metavar="NAME=VALUE", help="of the format; repeatable")
    group.add_argument(
        "--schema", metavar="DDL", help="the source's columns, for example 'id long, total decimal(9,2)'"
    )
    group.add_argument("--where", metavar="SQL", help="only rows for which this holds")
    group.add_argument("--partitions", type=int, metavar="N", help="write in this many partitions")


def _add_events(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--event-type", metavar="NAME", help="the topic, subject or stream of all events")
    group.add_argument("--event-type-column", metavar="COLUMN", help="the column that names it")
    group.add_argument(
        "--payload-columns", metavar="A,B", help="the body: a JSON object of these; default: all columns"
    )
    group.add_argument("--raw-payload", metavar="COLUMN", help="the body: this column's text or bytes as they are")
    group.add_argument("--key", metavar="A,B", help="the partition key; of several columns, with : between")
    group.add_argument("--headers", metavar="NAME=COLUMN,…", help="headers")
    group.add_argument("--id-columns", metavar="A,B", help="the business key from which event ids are derived")
    group.add_argument("--event-id", metavar="COLUMN", help="the column that has the event's id, a UUID")
    group.add_argument("--available-at", metavar="COLUMN", help="hold events back until this time")


def _add_outbox(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--url", help="postgresql://user@host:5432/database; without the password: others may read it")
    group.add_argument("--url-file", metavar="FILE", help="a file with the URL, password and all")
    group.add_argument("--table", metavar="[SCHEMA.]TABLE", help="the outbox table; default: openoutbox_events")
    group.add_argument("--job", metavar="NAME", help="part of derived ids, so that a repeated job makes the same")
    group.add_argument("--commit", choices=["atomic", "partition"], help="all at once (default), or task by task")
    group.add_argument("--max-connections", metavar="N", help="most connections at a time (default: 8)")
    group.add_argument("--batch-rows", metavar="N", help="rows of one COPY with --commit partition (default: 50000)")


def _shape(args: argparse.Namespace) -> Shape:
    return Shape(
        event_type=args.event_type,
        event_type_column=args.event_type_column,
        payload_columns=names(args.payload_columns),
        raw_payload=args.raw_payload,
        key=names(args.key),
        headers=pairs("--headers", names(args.headers)),
        event_id=args.event_id,
        id_columns=names(args.id_columns),
        available_at=args.available_at,
    )


def _write_options(args: argparse.Namespace, table: str | None) -> tuple[tuple[str, str], ...]:
    named = {
        "table": args.table or table,
        "job": args.job,
        "commit": args.commit,
        "maxConnections": args.max_connections,
        "batchRows": args.batch_rows,
    }
    return tuple((name, value) for name, value in named.items() if value is not None)
