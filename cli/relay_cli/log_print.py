"""The output of ``relay-cli log``: aligned columns for people, one JSON object for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer

from relay.deliverylog import AttemptRecord, LoggedEvent, MetricsResult, Page
from relay.deliverylog.text import attempt_json, event_json, metrics_json, time_text


def print_json(value: object) -> None:
    """Print one JSON object on one line."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_events(page: Page[LoggedEvent], *, as_json: bool) -> None:
    """Print a page of events and its cursors."""
    if as_json:
        _print_page(page, [event_json(event) for event in page.items])
        return
    print_table(
        ("TIME", "EVENT", "TENANT", "TOPIC", "DESTINATIONS", "BYTES"),
        [
            (time_text(e.time), e.id, e.tenant_id, e.topic, ",".join(e.matched_destination_ids), len(e.data))
            for e in page.items
        ],
    )
    _print_cursors(page)


def print_attempts(page: Page[AttemptRecord], *, as_json: bool) -> None:
    """Print a page of attempts and its cursors."""
    if as_json:
        _print_page(page, [attempt_json(record) for record in page.items])
        return
    attempts = [record.attempt for record in page.items]
    print_table(
        ("TIME", "ATTEMPT", "EVENT", "TENANT", "TOPIC", "DESTINATION", "NUMBER", "STATUS", "CODE"),
        [
            (time_text(a.time), a.id, a.event_id, a.tenant_id, a.topic, a.destination_id, a.attempt_number, a.status,
             a.code or "-")
            for a in attempts
        ],
    )  # fmt: skip
    _print_cursors(page)


def print_event(event: LoggedEvent, *, as_json: bool) -> None:
    """Print all fields of one event."""
    fields = event_json(event)
    if not as_json:
        del fields["data_base64"]
        fields["data"] = _readable(event.data)
    _print_fields(fields, as_json=as_json)


def print_attempt(record: AttemptRecord, *, as_json: bool) -> None:
    """Print all fields of one attempt."""
    fields = attempt_json(record)
    if not as_json:
        del fields["event"]
    _print_fields(fields, as_json=as_json)


def print_metrics(result: MetricsResult, *, as_json: bool) -> None:
    """Print rows of metrics."""
    answer = metrics_json(result)
    if as_json:
        print_json(answer)
        return
    rows = answer["rows"]
    names = tuple(rows[0]) if rows else ()
    print_table(
        tuple(name.upper() for name in names),
        [tuple(f"{v:g}" if isinstance(v, float) else v for v in row.values()) for row in rows],
    )


def print_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print columns as wide as their longest cell, two spaces apart."""
    lines = [[_cell(value) for value in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    text = "-" if value in (None, "") else str(value)
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _print_fields(fields: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(fields)
        return
    for name, value in fields.items():
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
        typer.echo(f"{name}: {_cell(shown)}")


def _print_page(page: Page[Any], items: list[dict[str, Any]]) -> None:
    print_json({"items": items, "next": page.next, "prev": page.prev})


def _print_cursors(page: Page[Any]) -> None:
    for name, cursor in (("next", page.next), ("prev", page.prev)):
        if cursor is not None:
            typer.echo(f"--{name} {cursor}")


def _readable(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return f"{len(data)} bytes that are not UTF-8; --json prints them"
