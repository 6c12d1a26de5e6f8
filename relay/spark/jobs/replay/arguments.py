"""The arguments of ``replay``: what may be given, its help, and what is made of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from relay.client import uuid7
from relay.core.durations import parse_age, parse_bound
from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_TABLE, TableName
from relay.spark.jobs.arguments import add_outbox, number, outbox_url
from relay.spark.jobs.replay.steps import TENANT_HEADER, Bound, CopyOptions, CopySelection
from relay.spark.jobs.settled import STATUSES

_EXAMPLES: Final = """\
examples:
  what was delivered of one type in two hours, from the archive, at most 500 a second:
    spark-submit replay.py --archive s3a://lake/outbox --type orders.created --rate 500 \\
      --from 2026-01-31T10:00:00Z --to 2026-01-31T12:00:00Z --url-file /secrets/outbox-url
  count it first, and change nothing:
    relay-cli spark replay --archive /data/outbox --type orders.created --from 2d --dry-run
  all that died in the last day, from the table:
    relay-cli spark replay --status dead --from 1d
  go on with a replay that was interrupted: the same arguments, and its id:
    relay-cli spark replay --status dead --from 1d --replay-id 019b0a00-0000-7000-8000-000000000000
"""


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """One run of the job."""

    options: CopyOptions
    dry_run: bool
    as_json: bool


def read_replay_arguments(
    program: str, given: Sequence[str], *, url: str | None = None, table: str | None = None
) -> ReplayJob:
    """What is to be done; ``url`` and ``table`` are used where none is given. Ends the process for ``--help``.

    Raises ConfigError for invalid arguments.
    """
    args = _parser(program).parse_args(list(given))
    asked = (args.status, args.since, args.until, args.type, args.key, args.tenant)
    if not any(asked):
        raise ConfigError("say which events: --status, --from, --to, --type, --key or --tenant")
    options = CopyOptions(
        url=outbox_url(args, url),
        replay_id=_uuid(args.replay_id),
        selection=CopySelection(
            statuses=tuple(dict.fromkeys(args.status)) if args.status else STATUSES,
            since=_bound("--from", args.since),
            until=_bound("--to", args.until),
            types=tuple(args.type or ()),
            keys=tuple(args.key or ()),
            tenants=tuple(args.tenant or ()),
            tenant_header=args.tenant_header,
        ),
        archive=args.archive,
        table=TableName.parse(args.table or table or DEFAULT_TABLE),
        rate=_rate(args.rate),
        connections=number("--max-connections", args.max_connections, 1000),
        batch_rows=number("--batch-rows", args.batch_rows, 100_000),
        duplicate_window=_age("--nats-duplicate-window", args.nats_duplicate_window),
    )
    return ReplayJob(options, args.dry_run, args.json)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Send events of the past again: copies of them, from an archive or the table, into the outbox.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--archive", metavar="FOLDER", help="where events come from; without it: the table")
    _add_selection(parser.add_argument_group("which events (all that are given must hold; at least one is needed)"))
    parser.add_argument("--replay-id", metavar="UUID", help="of a replay to go on with; a new one if not given")
    parser.add_argument("--rate", metavar="N", help="most events a second, over the whole job")
    parser.add_argument(
        "--nats-duplicate-window",
        metavar="AGE",
        default="0",
        help="leave out, for now, what was delivered within the stream's duplicate window: NATS would drop it",
    )
    parser.add_argument("--dry-run", action="store_true", help="count the events; insert nothing")
    parser.add_argument("--json", action="store_true", help="the summary as one JSON object")
    add_outbox(parser, "most connections that insert (default: 4)")
    parser.add_argument("--batch-rows", metavar="N", default="1000", help="events of one transaction (default: 1000)")
    return parser


def _add_selection(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--status",
        action="append",
        type=str.upper,
        choices=STATUSES,
        metavar="STATUS",
        help="delivered or dead; repeatable (default: both)",
    )
    group.add_argument("--from", dest="since", metavar="TIME|AGE", help="delivered, or dead, since then")
    group.add_argument("--to", dest="until", metavar="TIME|AGE", help="delivered, or dead, before then")
    group.add_argument("--type", action="append", metavar="TYPE", help="of that event type; repeatable")
    group.add_argument("--key", action="append", metavar="KEY", help="of that partition key; repeatable")
    group.add_argument("--tenant", action="append", metavar="TENANT", help="of that tenant; repeatable")
    group.add_argument(
        "--tenant-header",
        metavar="NAME",
        default=TENANT_HEADER,
        help=f"the header that names the tenant (default: {TENANT_HEADER}, as the event store has it)",
    )


def _bound(option: str, text: str | None) -> Bound | None:
    """A time with its zone, or an age."""
    if text is None:
        return None
    try:
        return parse_bound(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def _age(option: str, text: str) -> float:
    try:
        return parse_age(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.01 <= rate <= 1e9:
        raise ConfigError(f"--rate: {text!r} is not a number of events a second from 0.01 on")
    return rate


def _uuid(text: str | None) -> UUID:
    if text is None:
        return uuid7()
    try:
        return UUID(text)
    except ValueError:
        raise ConfigError(f"--replay-id: {text!r} is not a UUID") from None
