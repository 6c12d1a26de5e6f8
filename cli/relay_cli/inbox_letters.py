"""``relay-cli inbox list``, ``show``, ``retry`` and ``skip``: the dead letters of a consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.inbox_options import InboxTable, location
from relay_cli.output import moment, one_line, plural, print_json, say
from relay_cli.shared_options import Json, StorageUrl
from relay_cli.show import print_row, print_row_json
from relay_cli.values import whole

if TYPE_CHECKING:
    from relay.inbox.letters import ListedLetter

Consumer = Annotated[str, typer.Argument(metavar="CONSUMER", help="The consumer's name in the inbox.")]
EventId = Annotated[str, typer.Argument(metavar="EVENT_ID", help="The event's id, as the list shows it.")]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", parser=whole(1, 10_000), help="Maximum number of dead letters.")
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the group."""
    for name, command in (("list", list_), ("show", show), ("retry", retry), ("skip", skip)):
        app.command(name)(command)


def list_(
    context: typer.Context,
    consumer: Annotated[str | None, typer.Argument(metavar="[CONSUMER]", help="Only of this consumer.")] = None,
    limit: Limit = 100,
    table: InboxTable = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first: messages whose handler failed until its last try, and those without an id.

    State retry: marked by relay-cli inbox retry, and not handled yet. Needs SELECT on the table of the tries.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage.

    Example: relay-cli inbox list billing
    """
    from relay.inbox.letters import list_letters

    letters = list_letters(*location(context, storage_url, table), consumer, limit)
    if as_json:
        print_json({"letters": [letter._asdict() for letter in letters]})
    elif not letters:
        say("no dead letters")
    for letter in letters if not as_json else ():
        say(_line(letter))


def _line(letter: ListedLetter) -> str:
    parts = (letter.state, letter.consumer, letter.event_id, letter.event_type or "-", letter.partition_key or "-")
    error = one_line(letter.error or "-")[:80]
    return f"{'  '.join(map(one_line, parts))}  tries {letter.tries}  since {moment(letter.since)}  {error}"


def show(
    context: typer.Context,
    consumer: Consumer,
    event_id: EventId,
    table: InboxTable = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter: the whole message, its tries and its error.

    Exit codes: 0 done, 1 there is no such dead letter, or the database or the table fails, 2 wrong usage.

    Example: relay-cli inbox show billing 0190b0a0-0000-7000-8000-000000000001
    """
    from relay.inbox.letters import show_letter

    letter = show_letter(*location(context, storage_url, table), consumer, event_id)
    if letter is None:
        raise _none(consumer, event_id)
    print_row_json(letter) if as_json else print_row(letter)


def retry(
    context: typer.Context,
    consumer: Consumer,
    event_id: Annotated[str | None, typer.Argument(metavar="[EVENT_ID]", help="Only this event.")] = None,
    table: InboxTable = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Mark one dead letter of a consumer, or all, to be tried again, with all of its tries.

    The consumer tries them when it calls inbox.retries, and no later than their message comes again. Needs SELECT and
    UPDATE on the table of the tries.

    Exit codes: 0 done, 1 there is no such dead letter, or the database or the table fails, 2 wrong usage.

    Example: relay-cli inbox retry billing
    """
    from relay.inbox.letters import changing_letters, retry_letters

    url, inbox = location(context, storage_url, table)
    with changing_letters(url, inbox, "marking dead letters") as connection:
        count = retry_letters(connection, inbox, consumer, event_id)
    if event_id is not None and not count:
        raise _none(consumer, event_id)
    print_json({"retried": count}) if as_json else say(f"{plural(count, 'dead letter')} will be tried again")


def skip(
    context: typer.Context,
    consumer: Consumer,
    event_id: EventId,
    table: InboxTable = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Delete one dead letter and mark its event as handled: it never has its effect, even if its message comes again.

    Needs SELECT and DELETE on the table of the tries, and INSERT on the inbox.

    Exit codes: 0 done, 1 there is no such dead letter, or the database or the table fails, 2 wrong usage.

    Example: relay-cli inbox skip billing 0190b0a0-0000-7000-8000-000000000001
    """
    from relay.inbox.letters import changing_letters, skip_letter

    url, inbox = location(context, storage_url, table)
    with changing_letters(url, inbox, "skipping a dead letter") as connection:
        skipped = skip_letter(connection, inbox, consumer, event_id)
    if not skipped:
        raise _none(consumer, event_id)
    print_json({"skipped": 1}) if as_json else say(f"skipped {one_line(event_id)}")


def _none(consumer: str, event_id: str) -> typer.Exit:
    say(
        f"error: consumer {one_line(consumer)} has no dead letter {one_line(event_id)}; relay-cli inbox list shows all",
        err=True,
    )
    return typer.Exit(1)
