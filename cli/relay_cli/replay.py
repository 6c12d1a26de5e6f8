"""``relay-cli replay``: send dead or delivered events again."""

from __future__ import annotations

import sys
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from relay_cli.early_end import in_batches
from relay_cli.groups import HELP, single_command
from relay_cli.output import Bar, plural, print_json, say
from relay_cli.shared_options import (
    DryRun,
    Json,
    Key,
    OfCause,
    StorageUrl,
    Table,
    Type,
    cause_of,
    outbox_of,
    read_settings,
)
from relay_cli.values import age, bound, choice, choices, event_id, number, whole
from relay_cli.who import user_and_host

if TYPE_CHECKING:
    from relay.outbox.admin.replay import Replayed, ReplayOptions
    from relay.outbox.admin.selection import Bound, Selection
    from relay.settings.locations import OutboxLocation
    from relay.settings.settings import Settings

_DELETED = (
    "ON_DELIVERED=delete: the table holds no event that was delivered in this mode. The delivery log lists what was "
    "delivered (relay-cli log events); an archive has the payloads to send again (relay-cli spark replay)."
)
_ABSENT = (
    "no event matched. An event that was pruned, or deleted on delivery (ON_DELIVERED=delete), has no row. The "
    "delivery log lists what was delivered (relay-cli log events); an archive has payloads (relay-cli spark replay)."
)

app = single_command()


class From(StrEnum):
    """The statuses that a replay may start from."""

    DEAD = "dead"
    DELIVERED = "delivered"


Ids = Annotated[
    list[UUID] | None,
    typer.Option("--id", metavar="UUID", parser=event_id, help="Only the event with this id. Repeatable."),
]
Code = Annotated[
    str | None,
    typer.Option("--error-code", metavar="CODE", help="Only events whose last_error says this before its first colon."),
]
Statuses = Annotated[
    list[From] | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        parser=choice(From),
        autocompletion=choices(From),
        help="Only dead or delivered events. Default: dead; with --id both. Repeatable.",
    ),
]
Since = Annotated[
    datetime | None,
    typer.Option("--from", metavar="TIME|AGE", parser=bound, help="Only events delivered or dead since then."),
]
Until = Annotated[
    datetime | None,
    typer.Option("--to", metavar="TIME|AGE", parser=bound, help="Only events delivered or dead before then."),
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", parser=whole(1), help="Maximum number of events, oldest first.")
]
Rate = Annotated[
    float | None, typer.Option("--rate", metavar="N", parser=number(0.01), help="Maximum number of events per second.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason to record (extension replay-audit).")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation on a terminal.")]
Window = Annotated[
    float | None,
    typer.Option(
        "--nats-duplicate-window",
        metavar="AGE",
        parser=age,
        help="The stream's duplicate window, instead of reading it from NATS; 0 for none.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Also replay events that NATS will drop as duplicates.")]


@app.command("replay", context_settings=HELP)
def command(
    context: typer.Context,
    ids: Ids = None,
    event_type: Type = None,
    key: Key = None,
    error_code: Code = None,
    of_cause: OfCause = None,
    statuses: Statuses = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    rate: Rate = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    nats_duplicate_window: Window = None,
    force: Force = False,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Send dead or delivered events again: back to PENDING, with no attempt used and due at once.

    Give at least one filter; all must match. Consumers see the same ids again. After Ctrl-C reported replays remain.

    With PUBLISHER_TYPE=nats, events that were delivered within the stream's duplicate window are refused: NATS would
    drop them. With ON_DELIVERED=delete the delivery log or an archive has what was delivered. Needs SELECT and UPDATE.

    Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.

    Example: relay-cli replay --status dead --type user.signup --from 2h --rate 100 --reason "broker was full"
    """
    from relay.outbox.admin.replay import ReplayOptions

    selection = _selection(ids, event_type, key, statuses, since, until, error_code, of_cause)
    settings = _settings(context, storage_url, table) if "delivered" in selection.kinds else None
    window = 0.0 if force or settings is None else _window(settings, nats_duplicate_window)
    options = ReplayOptions(limit, rate, reason=reason, who=user_and_host(), duplicate_window=window)
    outbox = outbox_of(context, storage_url, table)
    _explain_none(_confirm_and_replay(outbox, selection, options, dry_run=dry_run, yes=yes, as_json=as_json), settings)


def _settings(context: typer.Context, url: str | None, table: str | None) -> Settings:
    """Read the environment; say where delivered events are if the relays of this environment delete them."""
    from relay.app.duplicates import VARIABLES

    settings = read_settings(context, url, table, only={"ON_DELIVERED", *VARIABLES})
    if settings.on_delivered == "delete":
        say(_DELETED, err=True)
    return settings


def _explain_none(result: Replayed, settings: Settings | None) -> None:
    """When no event matched, say where delivered events may be; ``_settings`` has said it for ON_DELIVERED=delete."""
    if not result.total and settings is not None and settings.on_delivered == "keep":
        say(_ABSENT, err=True)


def _selection(
    ids: list[UUID] | None,
    event_type: str | None,
    key: str | None,
    statuses: list[From] | None,
    since: Bound | None,
    until: Bound | None,
    error_code: str | None,
    of_cause: str | None,
) -> Selection:
    """The filters; without --status dead events, and with --id delivered ones too."""
    from relay.outbox.admin.selection import Selection

    texts = (event_type, key, error_code, of_cause)
    if not (ids or statuses or since or until or any(text is not None for text in texts)):
        raise typer.BadParameter(
            "say which events: --id, --type, --key, --error-code, --cause, --status, --from or --to"
        )
    kinds = tuple(statuses) if statuses else (From.DEAD, From.DELIVERED) if ids else (From.DEAD,)
    return Selection(
        tuple(kind.value for kind in kinds),
        tuple(ids or ()),
        event_type,
        key,
        since,
        until,
        error_code=error_code,
        cause=cause_of(of_cause),
    )


def _window(settings: Settings, option: float | None) -> float:
    """The duplicate window in seconds: the option's, else the one of this environment's NATS streams."""
    from relay.app.duplicates import duplicate_window

    return duplicate_window(settings, ", or pass --nats-duplicate-window") if option is None else option


def _confirm_and_replay(
    location: OutboxLocation,
    selection: Selection,
    options: ReplayOptions,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> Replayed:
    """Replay, on a terminal after a confirmation; a dry run only counts."""
    from relay.outbox.admin.replay import Replayed, preview, replay

    count = cache(partial(preview, *location, selection, options))
    if dry_run:
        _report(count(), as_json=as_json, dry_run=True)
        return count()
    if sys.stdin.isatty() and not yes:
        typer.confirm(f"replay {_counts(count())}?", abort=True, err=True)
    return in_batches(
        Bar("replaying"),
        partial(replay, *location, selection, options),
        partial(_report, as_json=as_json, dry_run=False),
        lambda sums: sums.total,
        first=Replayed(),
        estimate=count,
    )


def _report(result: Replayed, *, as_json: bool, dry_run: bool, complete: bool = True) -> None:
    if as_json:
        print_json(
            {
                "dead": result.dead,
                "delivered": result.delivered,
                "dry_run": dry_run,
                "exact": result.exact,
                "recorded": result.recorded,
                "complete": complete,
            }
        )
        return
    say(f"{'would replay' if dry_run else 'replayed'} {_counts(result)}")
    if not result.recorded:
        say("not recorded: relay-cli migrate --with replay-audit adds the record")
    if not complete:
        say("not complete; run it again to continue")


def _counts(result: Replayed) -> str:
    least = "" if result.exact else "at least "
    return f"{least}{plural(result.dead, 'dead event')} and {least}{plural(result.delivered, 'delivered event')}"
