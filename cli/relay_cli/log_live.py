"""The commands of ``relay-cli log`` for people at work: tail, top and export."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from relay.core.durations import parse_duration, time_text
from relay_cli import log_options
from relay_cli.log_options import window, with_store
from relay_cli.output import Bar, on_terminal, say
from relay_cli.shared_options import Json
from relay_cli.values import whole

if TYPE_CHECKING:
    from relay.deliverylog import DeliveryLog, ListAttempts

Seconds = Annotated[str, typer.Option("--interval", metavar="TIME", help="Time between two readings.")]
_DIMENSIONS = {"topic": "topic", "destination": "destination_id", "tenant": "tenant_id", "code": "code"}
_SHORTEST_INTERVAL = 0.1  # seconds


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to ``relay-cli log``."""
    for name, command in (("tail", tail), ("top", top), ("export", export)):
        app.command(name)(command)


def tail(
    tenant: log_options.Tenants = None,
    event: log_options.Events = None,
    destination: log_options.Destinations = None,
    destination_type: log_options.DestinationTypes = None,
    status: log_options.Statuses = None,
    topic: log_options.Topics = None,
    last: Annotated[
        int, typer.Option("--last", metavar="N", parser=whole(0, 1000), help="Attempts to show at the start.")
    ] = 10,
    interval: Seconds = "1s",
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Show attempts as they arrive, one a line, until Ctrl-C. On a terminal lines are cut to its width.

    Example: relay-cli log tail --status failed --topic user.signup
    """
    from relay.deliverylog import ListAttempts
    from relay.deliverylog.follow import follow
    from relay_cli.log_print import print_arrivals

    filters = ListAttempts(tenant_ids=tenant, event_ids=event, destination_ids=destination, topics=topic)
    filters = replace(filters, destination_types=destination_type, status=status)
    seconds = _interval(interval)

    async def show(store: DeliveryLog) -> None:
        async for arrivals in follow(store, filters, last=last, interval=seconds):
            print_arrivals(arrivals, as_json=as_json)

    with suppress(KeyboardInterrupt):  # the way to end it
        with_store(url, schema, prefix, show)


def top(
    span: Annotated[str, typer.Option("--window", metavar="TIME", help="Count the attempts of the last TIME.")] = "1h",
    by: Annotated[str, typer.Option("--by", help="topic, destination, tenant or code.")] = "topic",
    limit: Annotated[int, typer.Option("--limit", metavar="N", parser=whole(1), help="Rows to show.")] = 10,
    tenant: log_options.Tenants = None,
    destination: log_options.Destinations = None,
    topic: log_options.Topics = None,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Show what fails most: event types, or with --by destinations, tenants or error codes.

    Example: relay-cli log top --window 15m --by destination
    """
    from relay.deliverylog import MetricsQuery
    from relay_cli.log_print import print_top

    if by not in _DIMENSIONS:
        raise typer.BadParameter(f"{by!r} is none of {', '.join(_DIMENSIONS)}", param_hint="--by")
    end = datetime.now(UTC) + timedelta(milliseconds=1)  # the end is exclusive
    query = MetricsQuery(
        start=end - timedelta(seconds=_duration(span, "--window")),
        end=end,
        measures=["failed_count", "count", "error_rate"],
        dimensions=[_DIMENSIONS[by]],
        filters={"tenant_id": tenant, "destination_id": destination, "topic": topic},
    )
    result = with_store(url, schema, prefix, lambda store: store.attempt_metrics(query))
    failing = [row for row in result.rows if row["failed_count"]]
    failing.sort(key=lambda row: (-row["failed_count"], -row["error_rate"], str(row[_DIMENSIONS[by]])))
    attempts = sum(row["count"] for row in result.rows)
    print_top(failing[:limit], by, _DIMENSIONS[by], attempts=attempts, span=span, as_json=as_json)


def export(
    form: Annotated[str, typer.Option("--format", help="csv or jsonl (JSON lines).")] = "csv",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", parser=Path, help="Instead of standard output.")
    ] = None,
    data: Annotated[bool, typer.Option("--data", help="With payloads, in base64.")] = False,
    tenant: log_options.Tenants = None,
    event: log_options.Events = None,
    destination: log_options.Destinations = None,
    destination_type: log_options.DestinationTypes = None,
    status: log_options.Statuses = None,
    topic: log_options.Topics = None,
    since: log_options.Gte = None,
    until: log_options.Lte = None,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Write attempts with their events as CSV or JSON lines, the oldest first, with progress on a terminal.

    A file is written beside its name and renamed when it is complete. What is written to the log meanwhile is
    included up to --until, by default now.

    Example: relay-cli log export --format jsonl --since 1d --status failed --output failed.jsonl
    """
    from relay.deliverylog import ListAttempts
    from relay.deliverylog.export import FORMATS

    if form not in FORMATS:
        raise typer.BadParameter(f"{form!r} is none of {', '.join(FORMATS)}", param_hint="--format")
    time = window(since, until or time_text(datetime.now(UTC), "microseconds"), None, None)
    filters = ListAttempts(tenant_ids=tenant, event_ids=event, destination_ids=destination, topics=topic, time=time)
    filters = replace(filters, destination_types=destination_type, status=status)
    with _target(output) as target:
        count = with_store(url, schema, prefix, _exporting(filters, form, target, with_data=data))
    say(f"exported {count} attempts{f' to {output}' if output else ''}", err=True)


@contextmanager
def _target(output: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that gets its name when it is complete."""
    if output is None:
        yield on_terminal(sys.stdout)
        return
    part = output.with_name(f"{output.name}.part")
    with part.open("w", encoding="utf-8", newline="") as target:
        yield target
    part.replace(output)


def _exporting(
    filters: ListAttempts, form: str, target: TextIO, *, with_data: bool
) -> Callable[[DeliveryLog], Awaitable[int]]:
    async def work(store: DeliveryLog) -> int:
        from relay.deliverylog.export import export_attempts

        bar, count = Bar("exporting"), 0
        total = await _total(store, filters) if bar.possible else None
        try:
            async for portion in export_attempts(store, filters, form, with_data=with_data):
                target.write(portion.text)
                count = portion.attempts
                bar.show(count, total)
        finally:
            bar.close()
        return count

    return work


async def _total(store: DeliveryLog, filters: ListAttempts) -> int | None:
    """How many attempts there are to export, for the progress; None when counting them is not possible, or too slow."""
    from relay.deliverylog import DeliveryLogError, MetricsQuery
    from relay.deliverylog.times import AFTER_ALL, BEFORE_ALL

    if filters.event_ids:  # no dimension of metrics
        return None
    time = filters.time
    query = MetricsQuery(
        start=(time.gte if time else None) or BEFORE_ALL,
        end=(time.lte if time else None) or AFTER_ALL,
        measures=["count"],
        filters={
            "tenant_id": filters.tenant_ids,
            "destination_id": filters.destination_ids,
            "destination_type": filters.destination_types,
            "status": filters.status,
            "topic": filters.topics,
        },
    )
    try:
        return int((await store.attempt_metrics(query)).rows[0]["count"])
    except DeliveryLogError:
        return None


def _interval(text: str) -> float:
    seconds = _duration(text, "--interval")
    if seconds < _SHORTEST_INTERVAL:
        raise typer.BadParameter(f"{text!r} is too short; write at least 100ms", param_hint="--interval")
    return seconds


def _duration(text: str, option: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} is not a time; write for example 15m", param_hint=option)
    return seconds
