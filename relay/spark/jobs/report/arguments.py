"""The arguments of ``report``: what may be given, its help, and what is made of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from relay.core.errors import ConfigError
from relay.postgres.url import check_url
from relay.spark.jobs.arguments import add_output, add_session, moment, names, number, read_options, session_options
from relay.spark.jobs.program import secret

_EXAMPLES: Final = """\
examples:
  a day of the delivery log:
    spark-submit report.py --log-url-file /secrets/log-url \\
      --since 2026-03-10T00:00:00Z --until 2026-03-11T00:00:00Z --output /reports/2026-03-10
  all that is archived of two event types:
    relay-cli spark report --archive s3a://lake/outbox --event-type orders.created,orders.paid --output report

exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted
"""


@dataclass(frozen=True, slots=True)
class Report:
    """One run of the job; either ``log_url`` or ``archive`` is there."""

    output: str
    log_url: str | None = field(default=None, repr=False)
    log_schema: str | None = None
    archive: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    event_types: tuple[str, ...] = ()
    types: int = 50
    as_json: bool = False
    session: tuple[tuple[str, str], ...] = ()
    read_options: tuple[tuple[str, str], ...] = ()


def read_report_arguments(program: str, given: Sequence[str], *, log_url: str | None = None) -> Report:
    """What is to be done; ``log_url`` is used where no source is given. Ends the process for ``--help``.

    Raises ConfigError for invalid arguments.
    """
    args = _parser(program).parse_args(list(given))
    named = secret("--log-url-file", args.log_url_file, args.log_url)
    if named and args.archive:
        raise ConfigError("--log-url and --archive: give one of the two")
    url = None if args.archive else named or log_url
    if url is None and not args.archive:
        raise ConfigError("--log-url, --log-url-file or --archive: missing; what is to be reported?")
    if url is not None:
        if url.startswith(("clickhouse:", "chdb:", "memory:")):
            raise ConfigError("--log-url: reads a delivery log in PostgreSQL; for others use relay-cli log metrics")
        check_url(url, "--log-url")
    since, until = moment("--since", args.since), moment("--until", args.until)
    if since and until and since >= until:
        raise ConfigError("--since and --until: the first must be earlier than the second")
    return Report(
        output=args.output.rstrip("/") or args.output,
        log_url=url,
        log_schema=args.log_schema,
        archive=args.archive,
        since=since,
        until=until,
        event_types=names(args.event_type),
        types=number("--types", args.types, 1000),
        as_json=args.json,
        session=session_options(args),
        read_options=read_options(args),
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Deliveries, failures, retries and latency by event type and hour.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    source = parser.add_argument_group("the source: the delivery log, or an archive")
    source.add_argument("--log-url", metavar="URL", help="the delivery log in PostgreSQL; without the password")
    source.add_argument("--log-url-file", metavar="FILE", help="a file with the URL, password and all")
    source.add_argument("--log-schema", metavar="SCHEMA", help="where the log is (default: openoutbox_log)")
    source.add_argument("--partitions", metavar="N", default="16", help="tasks that read the log (default: 16)")
    source.add_argument("--max-connections", metavar="N", default="4", help="most of them at a time (default: 4)")
    source.add_argument("--archive", metavar="PATH", help="an archive of relay-cli spark archive")
    source.add_argument("--since", metavar="TIME", help="only outcomes from then on, such as 2026-03-10T00:00:00Z")
    source.add_argument("--until", metavar="TIME", help="only outcomes before then")
    source.add_argument("--event-type", metavar="A,B", help="only events of these types")
    result = parser.add_argument_group("the result")
    add_output(result)
    result.add_argument("--types", metavar="N", default="50", help="event types on the page (default: 50)")
    add_session(parser)
    return parser
