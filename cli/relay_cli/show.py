"""``relay-cli show``: print one event with all columns."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from relay.core.json_text import indented
from relay_cli.groups import HELP, single_command
from relay_cli.output import block, one_line, print_json, say
from relay_cli.screen import columns, painted, with_ago, wrapped
from relay_cli.shared_options import Json, StorageUrl, Table, outbox_of
from relay_cli.values import event_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay.inbox.letters import ShownLetter
    from relay.outbox.admin.browse import ShownEvent
    from relay.outbox.admin.why import Why

_ABSENT = (
    "; it was not committed, or its row was pruned, archived or, with ON_DELIVERED=delete, deleted on delivery. "
    "relay-cli log events --event EVENT_ID says whether it was delivered"
)

app = single_command()

EventId = Annotated[UUID, typer.Argument(metavar="EVENT_ID", parser=event_id, help="The event's id, a UUID.")]


@app.command("show", context_settings=HELP)
def command(
    context: typer.Context,
    event_id: EventId,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Show one event: why it is not delivered and what to do, every column, its headers and its payload.

    The first line names what is in its way, with order per key the event that it waits for; "also" names what else is.
    A payload that is UTF-8 text is shown as text, JSON indented; anything else in base64. With --json,
    payload_encoding says which: utf-8 or base64.

    Exit codes: 0 done, 1 there is no such event, or the database or the table fails, 2 wrong usage.

    Example: relay-cli show 0190b0a0-0000-7000-8000-000000000001
    """
    from relay.outbox.admin.explain import explain_event
    from relay.routing.reported import read_reported

    url, name = outbox_of(context, storage_url, table)
    explained = explain_event(url, name, event_id, read_reported)
    if explained is None:
        say(f"error: there is no event {event_id} in table {name}{_ABSENT}", err=True)
        raise typer.Exit(1)
    event, why = explained
    if as_json:
        print_row_json(event, why=why.answer())
        return
    for label, text in _explanation(why):
        say(wrapped(f"{label:<15}{one_line(text)}", columns(), " " * 15))
    print_row(event)


def _explanation(why: Why) -> Iterator[tuple[str, str]]:
    """Why it is not delivered, and what to do; then what else is in its way."""
    for label, reason in (("why:", why.first), *(("also:", reason) for reason in why.also)):
        yield label, reason.sentence
        if reason.step:
            yield "to do:", reason.step


def _text(payload: bytes) -> str | None:
    """The payload as text, or None for one that is not UTF-8 or has a NUL character."""
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def print_row_json(event: ShownEvent | ShownLetter, **further: object) -> None:
    """One JSON object of all columns, and of what is known beside them."""
    answer: dict[str, object] = {**event._asdict(), **further}
    text = _text(event.payload)
    answer["payload_encoding"] = "base64" if text is None else "utf-8"
    answer["payload"] = base64.b64encode(event.payload).decode() if text is None else text
    del answer["headers"]
    print_json(answer, headers=event.headers)


def print_row(event: ShownEvent | ShownLetter) -> None:
    """A line for each column, then the headers and the payload."""
    for name, value in event._asdict().items():
        if name not in ("headers", "payload"):
            shown = painted(str(value), one_line(value)) if name == "status" else one_line(value)
            say(wrapped(f"{name + ':':<15}{shown or '-'}{with_ago(value)}", columns(), " " * 15))
    say("headers:")
    say(block(indented(event.headers) or event.headers))
    text = _text(event.payload)
    say(f"payload ({len(event.payload)} bytes{', base64' if text is None else ''}):")
    say(base64.encodebytes(event.payload).decode().rstrip("\n") if text is None else block(indented(text) or text))
