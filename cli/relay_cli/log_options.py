"""Options of ``relay-cli log``, and opening the delivery log that they name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from relay.core.durations import parse_duration
from relay_cli.values import whole

if TYPE_CHECKING:
    from relay.deliverylog import DeliveryLog, TimeWindow

Result = TypeVar("Result")

DeliveryLogUrl = Annotated[
    str | None,
    typer.Option(
        "--delivery-log-url",
        metavar="URL",
        help="The log, instead of DELIVERY_LOG_URL.",
        show_default=False,
    ),
]
Schema = Annotated[
    str | None,
    typer.Option("--schema", help="PostgreSQL: the schema of the tables, instead of DELIVERY_LOG_SCHEMA."),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", help="ClickHouse: the prefix of the tables' names, instead of DELIVERY_LOG_PREFIX."),
]
Tenants = Annotated[list[str] | None, typer.Option("--tenant", help="Only this tenant; repeatable.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")]
Events = Annotated[list[str] | None, typer.Option("--event", help="Only this event; repeatable.")]
Destinations = Annotated[list[str] | None, typer.Option("--destination", help="Only this destination; repeatable.")]
DestinationTypes = Annotated[list[str] | None, typer.Option("--type", help="Only this type; repeatable.")]
Statuses = Annotated[list[str] | None, typer.Option("--status", help="success or failed; repeatable.")]
Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; repeatable.")]
Gte = Annotated[str | None, typer.Option("--since", help="At or after: 2026-03-10T12:00:00Z, or an age: 2h.")]
Lte = Annotated[str | None, typer.Option("--until", help="At or before.")]
Gt = Annotated[str | None, typer.Option("--after", help="Later than.")]
Lt = Annotated[str | None, typer.Option("--before", help="Earlier than.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", parser=whole(1), help="Rows of a page: 100 by default, at most 1000."),
]
Order = Annotated[str, typer.Option("--order", help="desc (newest first) or asc.")]
Next = Annotated[str | None, typer.Option("--next", metavar="CURSOR", help="The page after this cursor.")]
Prev = Annotated[str | None, typer.Option("--prev", metavar="CURSOR", help="The page before this cursor.")]


def window(gte: str | None, lte: str | None, gt: str | None, lt: str | None) -> TimeWindow:
    """The time bounds of a listing."""
    from relay.deliverylog import TimeWindow

    bounds = {"gte": gte, "lte": lte, "gt": gt, "lt": lt}
    return TimeWindow(**{name: instant(text) for name, text in bounds.items() if text is not None})


def instant(text: str) -> datetime:
    """A time, or an age before now. Raises InvalidTimeRange."""
    from relay.deliverylog.text import parse_time

    try:
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        return parse_time(text)


def log_url(url: str | None) -> str:
    """The log's URL: the option, else DELIVERY_LOG_URL. Raises ConfigError when there is none."""
    from relay.settings.locations import log_address

    return log_address({"DELIVERY_LOG_URL": url} if url else {})


async def open_log(url: str, schema: str | None, prefix: str | None) -> DeliveryLog:
    """The log at ``url``, with the options' schema and prefix, else DELIVERY_LOG_SCHEMA and DELIVERY_LOG_PREFIX."""
    from relay.deliverylog import open_delivery_log
    from relay.settings.locations import log_location

    location = log_location({})
    return await open_delivery_log(
        url,
        schema=location.schema if schema is None else schema,
        prefix=location.prefix if prefix is None else prefix,
    )


def with_store(
    url: str | None, schema: str | None, prefix: str | None, work: Callable[[DeliveryLog], Awaitable[Result]]
) -> Result:
    """Open the log, do the work, close the log."""
    import asyncio  # 20 ms, which --help saves

    address = log_url(url)

    async def run() -> Result:
        store = await open_log(address, schema, prefix)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())
