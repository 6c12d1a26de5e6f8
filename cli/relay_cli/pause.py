"""``relay-cli pause``: hold back the whole outbox, an event type, or the types that begin with a prefix."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.output import one_line, print_json, say
from relay_cli.shared_options import Json, StorageUrl, Table, Type, outbox_of
from relay_cli.values import age, moment_with_zone
from relay_cli.who import user_and_host

if TYPE_CHECKING:
    from relay.core.pause import Pause, PauseTarget

app = single_command()

Prefix = Annotated[
    str | None, typer.Option("--prefix", metavar="TEXT", help="Only events whose type begins with TEXT.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown with the pause.")]
Who = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who pauses, instead of user and host.", show_default=False)
]
Until = Annotated[
    datetime | None,
    typer.Option("--until", metavar="TIME", parser=moment_with_zone, help="Resume at that time, with its zone."),
]
For = Annotated[float | None, typer.Option("--for", metavar="DURATION", parser=age, help="Resume after that time.")]
Listing = Annotated[bool, typer.Option("--list", help="Change nothing; show the pauses in force.")]


@app.command("pause", context_settings=HELP)
def command(
    context: typer.Context,
    event_type: Type = None,
    prefix: Prefix = None,
    reason: Reason = "",
    who: Who = None,
    until: Until = None,
    duration: For = None,
    listing: Listing = False,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Pause deliveries: of the whole outbox, or with --type or --prefix of some event types.

    Relays claim nothing of it within two seconds, finish what they have claimed, and stay ready. The events stay
    PENDING and are due as before after relay-cli resume, or at --until or --for. Restarts keep it. Pausing again
    changes its end, reason and author. Needs the extension pause (relay-cli migrate --with pause) and SELECT, INSERT,
    UPDATE and DELETE on its table; --list needs SELECT.

    Exit codes: 0 paused, 1 the database or the extension fails, 2 wrong usage.

    Example: relay-cli pause --type user.signup --for 1h --reason "consumer is being repaired"
    """
    from datetime import timedelta

    from relay.outbox.admin.pause import list_pauses, pause

    location = outbox_of(context, storage_url, table)
    if listing:
        show_pauses(list_pauses(*location), as_json=as_json)
        return
    if until is not None and duration is not None:
        raise typer.BadParameter("give --until or --for, not both")
    end = until if duration is None else timedelta(seconds=duration)
    result = pause(*location, target_of(event_type, prefix), who=who or user_and_host(), reason=reason, until=end)
    if as_json:
        print_json(pause_answer(result))
    else:
        say(one_line(result))


def target_of(event_type: str | None, prefix: str | None) -> PauseTarget:
    """What the options name; without both the whole outbox. Raises BadParameter for both."""
    from relay.core.pause import EVERYTHING, PauseScope, PauseTarget

    if event_type is not None and prefix is not None:
        raise typer.BadParameter("give --type or --prefix, not both")
    if event_type is not None:
        return PauseTarget(PauseScope.TYPE, event_type)
    return EVERYTHING if prefix is None else PauseTarget(PauseScope.PREFIX, prefix)


def show_pauses(pauses: list[Pause], *, as_json: bool) -> None:
    """Print the pauses in force."""
    if as_json:
        print_json({"pauses": [pause_answer(one) for one in pauses]})
        return
    for one in pauses:
        say(one_line(one))
    if not pauses:
        say("nothing is paused")


def pause_answer(pause: Pause) -> dict[str, Any]:
    """A pause as JSON."""
    return {
        "scope": str(pause.target.scope),
        "name": pause.target.name,
        "until": pause.until,
        "paused_by": pause.paused_by,
        "reason": pause.reason,
        "since": pause.since,
    }
