"""``relay-cli log``: read and maintain the delivery log."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from relay_cli import log_live, log_options
from relay_cli.groups import command_group
from relay_cli.log_admin import add_commands
from relay_cli.log_options import window, with_store
from relay_cli.log_quarantine import app as quarantine
from relay_cli.output import say
from relay_cli.shared_options import Json

app = command_group("Read and maintain the delivery log: events and attempts to deliver them.")
add_commands(app)
log_live.add_commands(app)
app.add_typer(quarantine, name="quarantine")


@app.command("events")
def events(
    tenant: log_options.Tenants = None,
    event: log_options.Events = None,
    destination: log_options.Destinations = None,
    topic: log_options.Topics = None,
    since: log_options.Gte = None,
    until: log_options.Lte = None,
    after: log_options.Gt = None,
    before: log_options.Lt = None,
    limit: log_options.Limit = None,
    order: log_options.Order = "desc",
    next_page: log_options.Next = None,
    prev_page: log_options.Prev = None,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """List events. The cursors below a page select the next and the previous page.

    Example: relay-cli log events --topic user.signup --since 2026-03-10 --limit 20
    """
    from relay.deliverylog import ListEvents
    from relay_cli.log_print import print_events

    query = ListEvents(
        tenant_ids=tenant,
        event_ids=event,
        destination_ids=destination,
        topics=topic,
        time=window(since, until, after, before),
        limit=limit,
        order=order,
        next=next_page,
        prev=prev_page,
    )
    page = with_store(url, schema, prefix, lambda store: store.list_events(query))
    print_events(page, as_json=as_json)


@app.command("attempts")
def attempts(
    tenant: log_options.Tenants = None,
    event: log_options.Events = None,
    destination: log_options.Destinations = None,
    destination_type: log_options.DestinationTypes = None,
    status: log_options.Statuses = None,
    topic: log_options.Topics = None,
    code: Annotated[list[str] | None, typer.Option("--code", help="Only this error code; repeatable.")] = None,
    since: log_options.Gte = None,
    until: log_options.Lte = None,
    after: log_options.Gt = None,
    before: log_options.Lt = None,
    limit: log_options.Limit = None,
    order: log_options.Order = "desc",
    sort_by: Annotated[str, typer.Option("--sort-by", help="time or event_time.")] = "time",
    next_page: log_options.Next = None,
    prev_page: log_options.Prev = None,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """List attempts. The cursors below a page select the next and the previous page.

    Example: relay-cli log attempts --status failed --since 2026-03-10 --limit 20
    """
    from relay.deliverylog import ListAttempts
    from relay_cli.log_print import print_attempts

    time = window(since, until, after, before)
    filters = ListAttempts(tenant_ids=tenant, event_ids=event, destination_ids=destination, topics=topic, time=time)
    filters = replace(filters, destination_types=destination_type, status=status, codes=code)
    query = replace(filters, limit=limit, order=order, sort_by=sort_by, next=next_page, prev=prev_page)
    page = with_store(url, schema, prefix, lambda store: store.list_attempts(query))
    print_attempts(page, as_json=as_json)


@app.command("event")
def event(
    event_id: Annotated[str, typer.Argument(metavar="ID")],
    tenant: log_options.Tenant = None,
    destination: Annotated[
        str | None, typer.Option("--destination", help="Only if it was sent to this destination.")
    ] = None,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Show one event.

    Example: relay-cli log event 0190b0a0-0000-7000-8000-000000000001
    """
    from relay_cli.log_print import print_event

    record = with_store(
        url, schema, prefix, lambda s: s.retrieve_event(event_id, tenant_id=tenant, destination_id=destination)
    )
    if record is None:
        raise _missing("event", event_id)
    print_event(record, as_json=as_json)


@app.command("attempt")
def attempt(
    attempt_id: Annotated[str, typer.Argument(metavar="ID")],
    tenant: log_options.Tenant = None,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Show one attempt.

    Example: relay-cli log attempt 0190b0a0-0000-7000-8000-000000000002
    """
    from relay_cli.log_print import print_attempt

    record = with_store(url, schema, prefix, lambda store: store.retrieve_attempt(attempt_id, tenant_id=tenant))
    if record is None:
        raise _missing("attempt", attempt_id)
    print_attempt(record, as_json=as_json)


@app.command("metrics")
def metrics(
    kind: Annotated[str, typer.Argument(metavar="events|attempts")],
    start: Annotated[str, typer.Option("--start", help="Inclusive, for example 2026-03-10T12:00:00Z.")],
    end: Annotated[str, typer.Option("--end", help="Exclusive.")],
    measure: Annotated[list[str] | None, typer.Option("--measure", help="What to count; repeatable.")] = None,
    by: Annotated[list[str] | None, typer.Option("--by", help="A dimension; repeatable.")] = None,
    filters: Annotated[list[str] | None, typer.Option("--filter", metavar="NAME=VALUE", help="Repeatable.")] = None,
    granularity: Annotated[str | None, typer.Option("--granularity", help="For example 5m, 1h, 1d, 1w, 1M.")] = None,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Count events or attempts.

    Example: relay-cli log metrics attempts --start 2026-03-10 --end 2026-03-11 --granularity 1h --measure error_rate
    """
    from relay.deliverylog import MetricsQuery
    from relay.deliverylog.text import parse_filters, parse_granularity, parse_time
    from relay_cli.log_print import print_metrics

    if kind not in ("events", "attempts"):
        raise typer.BadParameter(f"{kind!r} is neither events nor attempts")
    query = MetricsQuery(
        start=parse_time(start),
        end=parse_time(end),
        measures=measure or ["count"],
        dimensions=by,
        filters=parse_filters(filters or []),
        granularity=parse_granularity(granularity) if granularity else None,
    )
    result = with_store(
        url,
        schema,
        prefix,
        lambda store: store.event_metrics(query) if kind == "events" else store.attempt_metrics(query),
    )
    print_metrics(result, as_json=as_json)


def _missing(noun: str, name: str) -> typer.Exit:
    say(f"error: there is no {noun} {name!r}", err=True)
    return typer.Exit(1)
