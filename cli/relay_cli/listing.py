"""``relay-cli list``: list events, filtered by status, type, key, error and age."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from relay.core.event import Status
from relay_cli.groups import HELP, single_command
from relay_cli.options import Json, StorageUrl, Table, outbox_of
from relay_cli.output import one_line, plural, print_json
from relay_cli.values import age, choice, choices, whole

if TYPE_CHECKING:
    from relay.outbox.admin.browse import ListedEvent

app = single_command()

_COLUMNS = (
    "event_id",
    "status",
    "event_type",
    "partition_key",
    "attempts",
    "since",
    "next_try",
    "payload_bytes",
    "last_error",
)
_UNBOUNDED = 100_000  # columns: wide enough to measure a table's natural width

Statuses = Annotated[
    list[Status] | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        parser=choice(Status),
        autocompletion=choices(Status),
        help="Only pending, delivering, delivered or dead events. Repeatable.",
    ),
]
Type = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only events of that event type.")]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only events of that partition key.")]
Error = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only events whose last error contains TEXT.")
]
Older = Annotated[
    float | None,
    typer.Option("--older-than", metavar="AGE", parser=age, help="Only events in their status for longer than this."),
]
Newer = Annotated[
    float | None,
    typer.Option("--newer-than", metavar="AGE", parser=age, help="Only events in their status for less than this."),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", parser=whole(1, 10_000), help="Maximum number of events.")]
Oldest = Annotated[bool, typer.Option("--oldest/--newest", help="Sort order.")]


@app.command("list", context_settings=HELP)
def command(
    context: typer.Context,
    statuses: Statuses = None,
    event_type: Type = None,
    key: Key = None,
    error: Error = None,
    older_than: Older = None,
    newer_than: Newer = None,
    limit: Limit = 20,
    oldest: Oldest = False,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """List events, newest first by the time at which they entered their status.

    That time, since, is when a PENDING event was created, a DELIVERING one claimed, a DELIVERED one acknowledged, a
    DEAD one buried. A PENDING event that failed, or was inserted with a delay, shows its next attempt. Off a
    terminal: one line an event, separated by tabs: event id, status, event type, partition key, attempts, since, next
    try, payload bytes, last error. An age is a duration such as 90s, 1h30m or 7d. Searching a huge table for a
    rare type, key or error is slow; name the status to make it faster.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage.

    Example: relay-cli list --status dead --error timeout --newer-than 2h
    """
    from relay.outbox.admin.browse import RowFilter, list_events

    url, name = outbox_of(context, storage_url, table)
    selected = tuple(statuses) if statuses else tuple(Status)
    row_filter = RowFilter(selected, event_type, key, error, older_than, newer_than, limit, oldest)
    events = list_events(url, name, row_filter)
    if as_json:
        print_json({"events": [event._asdict() for event in events]})
    elif sys.stdout.isatty():
        _print_on_terminal(events)
    else:
        for event in events:
            typer.echo("\t".join(_cells(event)))


def _cells(event: ListedEvent) -> list[str]:
    waits = event.status == Status.PENDING and event.available_at != event.created_at
    shown = event._asdict() | {"next_try": event.available_at if waits else None}
    return [one_line(shown[name]) for name in _COLUMNS]


def _print_on_terminal(events: list[ListedEvent]) -> None:
    if not events:
        typer.echo("no events")
        return
    from rich.console import Console  # only a terminal needs it
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    table = RichTable(box=None, pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, no_wrap=True)
    for event in events:
        table.add_row(*(Text(cell) for cell in _cells(event)))
    if console.measure(table, options=console.options.update(width=_UNBOUNDED)).maximum <= console.width:
        console.print(table)
        return
    for event in events:
        console.print(Text(_paragraph(event)), soft_wrap=True)


def _paragraph(event: ListedEvent) -> str:
    """An event for a terminal too narrow for the table, in lines that the terminal wraps and a copy keeps whole."""
    event_id, status, event_type, key, attempts, since, next_try, size, error = _cells(event)
    parts = [event_type, f"key {key}" if key else "no key", f"attempts {attempts}", plural(int(size), "byte")]
    lines = [f"{event_id}  {status:<10}  {since}", "    " + "  ".join(parts)]
    lines += [f"    next try {next_try}"] if next_try else []
    lines += [f"    {error}"] if error else []
    return "\n".join(lines)
