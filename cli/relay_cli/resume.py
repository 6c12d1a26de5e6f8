"""``relay-cli resume``: end pauses."""

from __future__ import annotations

from typing import Annotated

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.output import one_line, print_json, say
from relay_cli.pause import Prefix, pause_answer, target_of
from relay_cli.shared_options import Json, StorageUrl, Table, Type, outbox_of

app = single_command()

Every = Annotated[bool, typer.Option("--all", help="End every pause.")]


@app.command("resume", context_settings=HELP)
def command(
    context: typer.Context,
    event_type: Type = None,
    prefix: Prefix = None,
    every: Every = False,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """End the pause of the whole outbox, of --type or of --prefix, or with --all every pause.

    It ends the pause of exactly that target: a pause of the whole outbox also holds a type that is resumed, and the
    output names what stays paused. Relays go on within two seconds. It changes nothing if none is paused.

    Exit codes: 0 done, also if nothing was paused, 1 the database or the extension fails, 2 wrong usage.

    Example: relay-cli resume --type user.signup
    """
    from relay.outbox.admin.pause import list_pauses, resume

    if every and (event_type is not None or prefix is not None):
        raise typer.BadParameter("give --all, --type or --prefix, not several")
    location = outbox_of(context, storage_url, table)
    target = target_of(event_type, prefix)
    ended = resume(*location, None if every else target)
    rest = list_pauses(*location)
    if as_json:
        answer = {"resumed": [pause_answer(one) for one in ended], "pauses": [pause_answer(one) for one in rest]}
        print_json(answer)
        return
    for one in ended:
        say(one_line(f"resumed {one.target}"))
    if not ended:
        say(one_line("nothing was paused" if every else f"{target} was not paused"))
    for one in rest:
        say(one_line(f"still: {one}"))
