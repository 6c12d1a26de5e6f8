"""``relay-cli prune``: delete old delivered and dead events."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.early_end import prune_or_preview
from relay_cli.groups import HELP, single_command
from relay_cli.output import moment, plural, print_json, say
from relay_cli.screen import columns, with_ago, wrapped
from relay_cli.shared_options import DryRun, Json, StorageUrl, Table, outbox_of
from relay_cli.values import age, whole

if TYPE_CHECKING:
    from relay.outbox.admin.prune import Pruned

app = single_command()

DeliveredAge = Annotated[
    float,
    typer.Option("--delivered-age", metavar="AGE", parser=age, help="Delete events delivered longer ago than this."),
]
DeadAge = Annotated[
    float, typer.Option("--dead-age", metavar="AGE", parser=age, help="Delete events dead for longer than this.")
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size", metavar="N", parser=whole(1, 100_000), help="Maximum number of events in one transaction."
    ),
]


@app.command("prune", context_settings=HELP)
def command(
    context: typer.Context,
    delivered_age: DeliveredAge = "7d",  # type: ignore[assignment]  # typer parses a default as it parses a value
    dead_age: DeadAge = "30d",  # type: ignore[assignment]  # likewise
    dry_run: DryRun = False,
    batch_size: BatchSize = 1000,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Delete events that were delivered, or died, longer ago than an age.

    An age is a duration such as 90m, 12h or 7d; 0 keeps all events of that status. Works beside a running relay: small
    batches, each a short transaction that waits for no lock, with pauses while events wait to be sent. After
    Ctrl-C it reports the deleted events (exit code 130) and may be run again. A dry run counts from the indexes, up to
    5000000 of each status.

    Needs SELECT, DELETE and UPDATE on the table.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage, 130 interrupted.

    Example: relay-cli prune --delivered-age 7d --dead-age 30d --dry-run
    """
    from relay.outbox.admin.prune import Pruned, PruneOptions, preview, prune

    place = *outbox_of(context, storage_url, table), PruneOptions(delivered_age, dead_age, batch_size)
    report = partial(_report, as_json=as_json)
    prune_or_preview(
        partial(preview, *place),
        partial(prune, *place),
        report,
        lambda sums: sums.total,
        first=Pruned(),
        dry_run=dry_run,
    )


def _report(result: Pruned, *, as_json: bool, dry_run: bool, complete: bool = True) -> None:
    if as_json:
        answer = {
            "delivered": result.delivered,
            "dead": result.dead,
            "delivered_before": result.delivered_before,
            "dead_before": result.dead_before,
            "dry_run": dry_run,
            "exact": result.exact,
            "complete": complete,
        }
        print_json(answer)
        return
    from relay.outbox.admin.prune import COUNT_MOST

    verb = "would delete" if dry_run else "deleted"
    for status, count, before in (
        ("delivered", result.delivered, result.delivered_before),
        ("dead", result.dead, result.dead_before),
    ):
        if before is None:
            say(f"{status}: left alone")
            continue
        least = "at least " if count >= COUNT_MOST and not result.exact else ""
        line = f"{status}: {verb} {least}{plural(count, 'event')} from before {moment(before)}{with_ago(before)}"
        say(wrapped(line, columns(), "  "))
    if not complete:
        say("not complete; run it again to continue")
