"""The output of ``relay-cli log``: aligned columns for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from relay.core import durations
from relay.deliverylog import AttemptRecord, LoggedAttempt, LoggedEvent, MetricsResult, Page, QuarantinedEntry
from relay.deliverylog.follow import Arrivals
from relay.deliverylog.text import attempt_json, event_json, metrics_json, time_text
from relay_cli.columns import ScreenColumn, fit
from relay_cli.output import print_json, say
from relay_cli.screen import ago, columns, painted, wrapped


def print_events(page: Page[LoggedEvent], *, as_json: bool) -> None:
    """Print a page of events and its cursors."""
    if as_json:
        _print_page(page, [event_json(event) for event in page.items])
        return
    events = page.items
    print_table(
        [
            ScreenColumn("AGE", [ago(event.time) for event in events], 1),
            ScreenColumn("TIME", [time_text(event.time) for event in events], 6),
            ScreenColumn("EVENT", [event.id for event in events], 0),
            ScreenColumn("TENANT", [event.tenant_id for event in events], 4, 8),
            ScreenColumn("TOPIC", [event.topic for event in events], 2, 10),
            ScreenColumn("DESTINATIONS", [",".join(event.matched_destination_ids) for event in events], 3, 8),
            ScreenColumn("BYTES", [str(len(event.data)) for event in events], 5),
        ]
    )
    _print_cursors(page)


def print_attempts(page: Page[AttemptRecord], *, as_json: bool) -> None:
    """Print a page of attempts and its cursors."""
    if as_json:
        _print_page(page, [attempt_json(record) for record in page.items])
        return
    attempts = [record.attempt for record in page.items]
    print_table(
        [
            ScreenColumn("AGE", [ago(attempt.time) for attempt in attempts], 1),
            ScreenColumn("TIME", [time_text(attempt.time) for attempt in attempts], 8),
            ScreenColumn("ATTEMPT", [attempt.id for attempt in attempts], 9),
            ScreenColumn("EVENT", [attempt.event_id for attempt in attempts], 0),
            ScreenColumn("TENANT", [attempt.tenant_id for attempt in attempts], 7, 8),
            ScreenColumn("TOPIC", [attempt.topic for attempt in attempts], 4, 8),
            ScreenColumn("DESTINATION", [attempt.destination_id for attempt in attempts], 6, 8),
            ScreenColumn("NUMBER", [str(attempt.attempt_number) for attempt in attempts], 5),
            ScreenColumn("STATUS", [attempt.status for attempt in attempts], 2, paint=painted),
            ScreenColumn("CODE", [attempt.code or "-" for attempt in attempts], 3, 8),
        ]
    )
    _print_cursors(page)


def print_quarantine(entries: Sequence[QuarantinedEntry]) -> None:
    """Print quarantined entries."""
    fields = [entry.fields or {"event": {}, "attempt": {}} for entry in entries]
    print_table(
        [
            ScreenColumn("AGE", [ago(entry.time) for entry in entries], 1),
            ScreenColumn("TIME", [time_text(entry.time) for entry in entries], 6),
            ScreenColumn("ATTEMPT", [str(each["attempt"].get("id", "")) for each in fields], 3, 8),
            ScreenColumn("EVENT", [str(each["event"].get("id", "")) for each in fields], 0),
            ScreenColumn("TENANT", [str(each["event"].get("tenant_id", "")) for each in fields], 5, 8),
            ScreenColumn("TOPIC", [str(each["attempt"].get("topic", "")) for each in fields], 4, 8),
            ScreenColumn("REASON", [entry.reason for entry in entries], 2, 16),
        ]
    )


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
        [ScreenColumn(name.upper(), [_number(row[name]) for row in rows], rank) for rank, name in enumerate(names)]
    )


def _number(value: Any) -> Any:  # noqa: ANN401 - a value of any column
    """Six digits of a fraction, and no exponent: a rate of 0.0000019, not 1.9e-06."""
    return f"{Decimal(f'{value:g}'):f}" if isinstance(value, float) else value


def print_arrivals(arrivals: Arrivals, *, as_json: bool) -> None:
    """Print attempts as they arrive, one a line, each at once."""
    width = columns()
    for record in arrivals.records:
        if as_json:
            print_json(attempt_json(record, with_data=False))
        else:
            say(_arrival(record.attempt, width))
    if arrivals.more:
        say("more arrived than one reading shows; filter to see all", err=True)
    sys.stdout.flush()


def _arrival(attempt: LoggedAttempt, width: int | None) -> str:
    """One line: time, status, event, then what differs most; a terminal's width cuts the end.

    A terminal shows the time of day, a file the whole time, both in UTC.
    """
    number = f"#{attempt.attempt_number}" if attempt.attempt_number > 1 or attempt.manual else ""
    manual = "replay" if attempt.manual else ""
    rest = (attempt.code or "", attempt.topic, attempt.destination_id, number, manual, attempt.tenant_id)
    moment = time_text(attempt.time) if width is None else durations.time_text(attempt.time)[len("2026-03-10T") :]
    head, status = f"{moment} ", attempt.status.ljust(len("success"))
    line = f"{head}{status} {_cell(attempt.event_id)} {' '.join(_cell(part) for part in rest if part)}"
    if width is not None and len(line) > width:
        line = f"{line[: width - 1]}…"
    return head + painted(attempt.status, status) + line[len(head) + len(status) :]


def print_top(
    rows: Sequence[dict[str, Any]], title: str, dimension: str, *, attempts: int, span: str, as_json: bool
) -> None:
    """Print what fails most, or that nothing failed."""
    if as_json:
        print_json({"rows": list(rows), "attempts": attempts})
        return
    if not rows:
        say(f"no attempt failed in the last {span}; {attempts} were made")
        return
    print_table(
        [
            ScreenColumn(title.upper(), [str(row[dimension] or "-") for row in rows], 0, 12),
            ScreenColumn("FAILED", [str(row["failed_count"]) for row in rows], 1),
            ScreenColumn("ATTEMPTS", [str(row["count"]) for row in rows], 2),
            ScreenColumn("ERRORS", [f"{row['error_rate']:.1%}" for row in rows], 3),
        ]
    )


def print_table(table: Sequence[ScreenColumn]) -> None:
    """Print columns as wide as their longest cell, two spaces apart; on a terminal those that fit, with ages."""
    shown = [column._replace(cells=[_cell(value) for value in column.cells]) for column in table]
    width = columns()
    if width is not None:
        fitted = fit(shown, width)
        for line in fitted.lines:
            say(line)
        if fitted.shortened:
            say(wrapped("a wider terminal shows more; relay-cli log event ID shows an event whole", width))
        return
    exact = [column for column in shown if column.name != "AGE"]
    for row in zip(*((column.name, *column.cells) for column in exact), strict=True):
        cells = [cell.ljust(column.widest) for cell, column in zip(row, exact, strict=True)]
        say("  ".join(cells).rstrip())


def _cell(value: object) -> str:
    text = "-" if value in (None, "") else str(value)
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _print_fields(fields: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(fields)
        return
    for name, value in fields.items():
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
        say(f"{name}: {_cell(shown)}")


def _print_page(page: Page[Any], items: list[dict[str, Any]]) -> None:
    print_json({"items": items, "next": page.next, "prev": page.prev})


def _print_cursors(page: Page[Any]) -> None:
    for name, cursor in (("next", page.next), ("prev", page.prev)):
        if cursor is not None:
            say(f"--{name} {cursor}")


def _readable(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return f"{len(data)} bytes that are not UTF-8; --json prints them"
