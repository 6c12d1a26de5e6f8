"""``relay-cli list``: list events, filtered by status, type, key, error and age."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from relay.core.event import Status
from relay_cli.columns import ScreenColumn, fit
from relay_cli.groups import HELP, single_command
from relay_cli.output import one_line, print_json, say
from relay_cli.screen import ago, columns, painted, wrapped
from relay_cli.shared_options import Json, Key, OfCause, StorageUrl, Table, Type, cause_of, name_and_value, outbox_of
from relay_cli.values import age, choice, choices, whole

if TYPE_CHECKING:
    from relay.outbox.admin.browse import ListedEvent, RowFilter
    from relay.postgres.codec import Moment
    from relay.postgres.sql import TableName

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
Error = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only events whose last error contains TEXT.")
]
Header = Annotated[
    str | None, typer.Option("--header", metavar="NAME=VALUE", help="Only events whose header NAME is VALUE.")
]
Payload = Annotated[
    str | None, typer.Option("--payload", metavar="TEXT", help="Only events whose payload contains TEXT, as UTF-8.")
]
Older = Annotated[
    float | None,
    typer.Option(
        "--older-than",
        metavar="AGE",
        parser=age,
        help="Only events in their status for longer than this: 90s, 1h30m, 7d.",
    ),
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
    of_cause: OfCause = None,
    header: Header = None,
    payload: Payload = None,
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
    DEAD one buried. A PENDING event that failed, or was inserted with a delay, shows its next attempt.

    Off a terminal, the line of an event has these fields, separated by tabs: event id, status, event type, partition
    key, attempts, since, next try, payload bytes, last error.

    Searching a huge table for a rare type, key or error is slow; name the status to make it faster. With --cause,
    --header or --payload it says every 2 s on standard error how far it has come.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage.

    Example: relay-cli list --status dead --error timeout --newer-than 2h
    """
    from relay.outbox.admin.browse import RowFilter, list_events

    url, name = outbox_of(context, storage_url, table)
    selected = tuple(statuses) if statuses else tuple(Status)
    row_filter = RowFilter(selected, event_type, key, error, older_than, newer_than, limit, oldest)
    plain = of_cause is None and header is None and payload is None
    found = list_events(url, name, row_filter) if plain else _search(url, name, row_filter, of_cause, header, payload)
    _show(found, as_json=as_json)


def _search(
    url: str, table: TableName, rows: RowFilter, of_cause: str | None, header: str | None, payload: str | None
) -> list[ListedEvent]:
    from relay.outbox.admin.browse import read_time
    from relay.outbox.admin.search import EventSearch, find_events

    cause, pair = cause_of(of_cause), None if header is None else name_and_value(header)
    now = read_time(url, table)
    search = EventSearch(
        rows.statuses,
        rows.event_type,
        rows.partition_key,
        rows.error,
        cause=cause,
        header=pair,
        payload=None if payload is None else payload.encode(),
        since=None if rows.newer_than is None else now - timedelta(seconds=rows.newer_than),
        until=None if rows.older_than is None else now - timedelta(seconds=rows.older_than),
        limit=rows.limit,
    )

    def tell(moment: Moment | None) -> None:
        say(f"searched as far as {one_line(moment)}; the search goes on", err=True)

    return find_events(url, table, search, oldest_first=rows.oldest_first, on_pause=tell)


def _show(events: list[ListedEvent], *, as_json: bool) -> None:
    if as_json:
        print_json({"events": [event._asdict() for event in events]})
    elif (width := columns()) is not None:
        _print_on_terminal(events, width)
    else:
        for event in events:
            say("\t".join(_cells(event)))


def _cells(event: ListedEvent) -> list[str]:
    waits = event.status == Status.PENDING and event.available_at != event.created_at
    shown = event._asdict() | {"next_try": event.available_at if waits else None}
    return [one_line(shown[name]) for name in _COLUMNS]


def _print_on_terminal(events: list[ListedEvent], width: int) -> None:
    """Print one line an event; what does not fit is cut or left out, but never the id."""
    if not events:
        say("no events")
        return
    rows = [dict(zip(_COLUMNS, _cells(event), strict=True)) for event in events]
    waits = [event.available_at if row["next_try"] else None for event, row in zip(events, rows, strict=True)]
    retries = any(waits)  # then what matters is when the next attempt comes, more than since when

    def texts(name: str) -> list[str]:
        return [row[name] for row in rows]

    table = fit(
        [
            ScreenColumn("event id", texts("event_id"), 0),
            ScreenColumn("status", texts("status"), 1, paint=painted),
            ScreenColumn("since", [ago(event.since) for event in events], 5 if retries else 2),
            ScreenColumn("since (UTC)", texts("since"), 9),
            ScreenColumn("type", texts("event_type"), 3, 10),
            ScreenColumn("key", texts("partition_key"), 7, 8),
            ScreenColumn("failed", texts("attempts"), 6),
            ScreenColumn("next try", [ago(moment) for moment in waits], 2),
            ScreenColumn("next try (UTC)", texts("next_try"), 10),
            ScreenColumn("bytes", texts("payload_bytes"), 8),
            ScreenColumn("last error", texts("last_error"), 4, 10),
        ],
        width,
    )
    for line in table.lines:
        say(line)
    if table.shortened:
        say(wrapped("a wider terminal shows more; relay-cli show EVENT_ID shows an event whole", width))
