"""``relay-cli fleet``: the relays of an outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.output import one_line, plural, print_json, say
from relay_cli.screen import columns, span, wrapped
from relay_cli.shared_options import Json, StorageUrl, Table, outbox_of

if TYPE_CHECKING:
    from relay.outbox.admin.relays import FleetMember

app = single_command()


@app.command("fleet", context_settings=HELP)
def command(context: typer.Context, table: Table = None, storage_url: StorageUrl = None, as_json: Json = False) -> None:
    """Show the relays of the table: version, state, destination, settings and pace of each.

    Each relay writes its row every 5 seconds. One that has been silent for 30 seconds counts as gone and is listed
    for 10 minutes; one that stops by SIGTERM deletes its row. It names differences in destination, LEASE_TIMEOUT,
    ORDERING or ON_DELIVERED between living relays. Needs the extension fleet (relay-cli migrate
    --with fleet) and SELECT on its table.

    Exit codes: 0 done, 1 the database or the extension fails, 2 wrong usage.

    Example: relay-cli fleet --json
    """
    from relay.outbox.admin.relays import differences, list_relays

    members = list_relays(*outbox_of(context, storage_url, table))
    faults = differences(members)
    if as_json:
        print_json({"relays": [member._asdict() for member in members], "differences": faults})
        return
    width = columns()
    say(plural(sum(member.living for member in members), "living relay"))
    for member in members:
        say(wrapped(one_line(_line(member)), width, "  "))
    for fault in faults:
        say(wrapped(one_line(f"warning: {fault}"), width, "  "))


def _line(member: FleetMember) -> str:
    if not member.living:
        return f"{member.relay_id} on {member.host}: gone, last seen {span(member.silence)} ago"
    reason = f" ({member.reason})" if member.reason else ""
    pauses = f", obeys {plural(member.pauses, 'pause')}" if member.pauses else ""
    return (
        f"{member.relay_id} on {member.host}: {member.state}{reason}, version {member.version}, "
        f"to {member.destination_type} {member.destination}, "
        f"{member.delivered_per_second:.1f} delivered and {member.failed_per_second:.1f} failed a second, "
        f"{member.in_flight} in flight{pauses}"
    )
