"""``relay-cli inbox``: a consumer's table of the events that it has handled."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.early_end import prune_or_preview
from relay_cli.groups import command_group
from relay_cli.inbox_letters import add_commands
from relay_cli.inbox_options import InboxTable, location
from relay_cli.output import moment, one_line, plural, print_json, say
from relay_cli.shared_options import DryRun, Json, StorageUrl
from relay_cli.values import age, whole

if TYPE_CHECKING:
    from relay.inbox.prune import PrunedMarks
    from relay.inbox.stats import InboxFigures

app = command_group("Create, prune and count a consumer's inbox, and deal with its dead letters (docs/guide/inbox.md).")

With = Annotated[
    list[str] | None, typer.Option("--with", metavar="EXTENSION", help="Also add this extension: dead-letters.")
]
OlderThan = Annotated[
    float, typer.Option("--older-than", metavar="AGE", parser=age, help="Delete marks that are older than this.")
]
RedeliveredWithin = Annotated[
    float,
    typer.Option(
        "--redelivered-within",
        metavar="AGE",
        parser=age,
        help="How late a message may come again; a shorter --older-than is refused.",
    ),
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size", metavar="N", parser=whole(1, 100_000), help="Maximum number of marks in one transaction."
    ),
]


@app.command("migrate")
def migrate(
    context: typer.Context,
    dry_run: DryRun = False,
    extensions: With = None,
    table: InboxTable = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Create the inbox in the consumer's own database, if it is missing.

    It may run again, and on several machines at once. A table of that name that differs is not changed: the error says
    how it differs. A schema is never created. Consumers need INSERT on the table, and do not need this command.

    The extension dead-letters is the table in which inbox.process counts tries and keeps dead letters.

    Exit codes: 0 done or up to date, 1 the database fails or the table differs, 2 wrong usage.

    Example: relay-cli inbox migrate --dry-run
    """
    from relay.inbox.table import create, missing

    url, name = location(context, storage_url, table)
    steps = (missing if dry_run else create)(url, name, extensions or ())
    statements = [sql for step in steps for sql in step.statements]
    if as_json:
        print_json({"table": str(name), "dry_run": dry_run, "up_to_date": not steps, "statements": statements})
    elif not steps:
        say(f"{'-- ' if dry_run else ''}table {name} is up to date")
    elif dry_run:
        for sql in statements:
            say(sql)
    else:
        for step in steps:
            say(f"created table {step.name}")


@app.command("prune")
def prune(
    context: typer.Context,
    older_than: OlderThan = "30d",  # type: ignore[assignment]  # typer parses a default as it parses a value
    redelivered_within: RedeliveredWithin = "7d",  # type: ignore[assignment]  # likewise
    dry_run: DryRun = False,
    batch_size: BatchSize = 1000,
    table: InboxTable = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Delete marks that are older than an age.

    An event whose mark is deleted is new again: if its message comes once more, its effect happens twice. So keep marks
    longer than the latest repeat. --redelivered-within says how late that may be; 7d is Kafka's default retention, and
    for how long relay-cli prune keeps delivered events, which can be replayed. Raise it with either of them; dead
    events, which are kept for 30d, count where they may have been published before they were given up.

    Works beside consumers: small batches, each a short transaction that waits for no lock. After Ctrl-C it reports the
    deleted marks (exit code 130) and may be run again. A dry run counts from the index, up to 5000000.

    Needs SELECT, DELETE and UPDATE on the table.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage, 130 interrupted.

    Example: relay-cli inbox prune --older-than 30d --dry-run
    """
    from relay.inbox.prune import InboxRetention, preview, prune

    place = *location(context, storage_url, table), InboxRetention(older_than, redelivered_within, batch_size)
    report = partial(_report, as_json=as_json)
    prune_or_preview(
        partial(preview, *place),
        partial(prune, *place),
        report,
        lambda sums: sums.count,
        first=None,
        dry_run=dry_run,
    )


def _report(result: PrunedMarks, *, as_json: bool, dry_run: bool, complete: bool = True) -> None:
    if as_json:
        answer = {
            "marks": result.count,
            "before": result.before,
            "dry_run": dry_run,
            "exact": result.exact,
            "complete": complete,
        }
        print_json(answer)
        return
    verb = "would delete" if dry_run else "deleted"
    least = "" if result.exact else "at least "
    say(f"{verb} {least}{plural(result.count, 'mark')} from before {moment(result.before)}")
    if not complete:
        say("not complete; run it again to continue")


@app.command("stats")
def stats(
    context: typer.Context, table: InboxTable = None, storage_url: StorageUrl = None, as_json: Json = False
) -> None:
    """Show the inbox's size, its oldest mark, and how many events each consumer has handled.

    Consumers are counted in the newest 1000000 marks. A mark that is older than your retention says that prune does not
    run. Needs SELECT on the table.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage.

    Example: relay-cli inbox stats
    """
    from relay.inbox.stats import read_figures

    figures = read_figures(*location(context, storage_url, table))
    print_json(asdict(figures)) if as_json else _print_lines(figures)


def _print_lines(figures: InboxFigures) -> None:
    oldest = "no mark" if figures.oldest is None else f"the oldest mark is of {moment(figures.oldest)}"
    say(f"{figures.size_bytes} bytes with indexes; {oldest}")
    least = "" if figures.exact else "at least "
    for each in figures.consumers:
        say(f"{one_line(each.consumer)}: {least}{plural(each.marks, 'mark')}, the newest of {moment(each.newest)}")


add_commands(app)
