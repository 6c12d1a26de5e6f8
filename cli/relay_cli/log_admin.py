"""The commands of ``relay-cli log`` that change the log: migrate, retention, maintain, partitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from relay.core.durations import time_text
from relay.core.errors import ConfigError
from relay_cli import log_options
from relay_cli.log_copy import copy
from relay_cli.log_options import with_store
from relay_cli.output import print_json, print_pending, say
from relay_cli.shared_options import DryRun, Json
from relay_cli.values import days

if TYPE_CHECKING:
    from relay.deliverylog import DeliveryLog
    from relay.deliverylog.postgres.driver import PostgresDeliveryLog

Days = Annotated[
    int, typer.Option("--days", metavar="N", parser=days, help="How many days to keep; 0 keeps everything.")
]


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to ``relay-cli log``."""
    for name, command in (
        ("migrate", migrate),
        ("retention", retention),
        ("maintain", maintain),
        ("partitions", partitions),
        ("copy", copy),
    ):
        app.command(name)(command)


def migrate(
    dry_run: DryRun = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Create the log's tables, or upgrade a log of an earlier release.

    Running it again changes nothing. With --dry-run it prints the pending migrations and their SQL.

    Example: relay-cli log migrate --delivery-log-url postgres://owner@host:5432/log
    """
    plan = with_store(url, schema, prefix, lambda store: store.migrate(dry_run=dry_run))
    if dry_run:
        print_pending(plan, "the delivery log")
        return
    for pending in plan.pending:
        say(f"applied migration {pending.number}: {pending.name}")
    say("the delivery log is up to date")


def retention(
    days: Days,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Delete entries that are older than --days.

    PostgreSQL: drops the months that ended before that, once, without making writers wait; run it daily. ClickHouse:
    sets the TTL of the tables, which the server then applies automatically; 0 removes it.

    Example: relay-cli log retention --days 90d
    """
    with_store(url, schema, prefix, lambda store: store.apply_retention(days))
    say(f"keeping {days} days" if days else "keeping everything")


def maintain(
    days: Annotated[
        int | None,
        typer.Option(
            "--days",
            metavar="N",
            parser=days,
            help="How many days to keep, instead of DELIVERY_LOG_RETENTION_DAYS; without either nothing is deleted.",
        ),
    ] = None,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Create the coming months and delete what is older than the retention: the log's daily job.

    A relay does the same once an hour where its user owns the log; elsewhere run this daily as the owner.

    Example: relay-cli log maintain --days 90d
    """
    from relay.settings.settings import Settings

    name = "DELIVERY_LOG_RETENTION_DAYS"
    keep = days if days is not None else Settings.from_process(only={name}).delivery_log_retention_days

    async def work(store: DeliveryLog) -> datetime | None:
        await store.prepare_ahead()
        if keep:
            await store.apply_retention(keep)
        return store.ready_until

    ready_until = with_store(url, schema, prefix, work)
    if as_json:
        print_json({"ready_until": ready_until, "days": keep or None})
        return
    if ready_until is not None:
        say(f"the months until {time_text(ready_until)} are ready")
    say(f"keeping {keep} days" if keep else "keeping everything")


def partitions(
    action: Annotated[str, typer.Argument(metavar="ensure|drop|check")],
    days: Annotated[
        int | None, typer.Option("--days", metavar="N", parser=days, help="drop: how many days to keep.")
    ] = None,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
) -> None:
    """Maintain the monthly partitions of a PostgreSQL log.

    ensure creates this month's and the next three; check exits with 1 if one of them is missing; drop removes the
    months that ended more than --days ago. ClickHouse creates its partitions automatically.

    Example: relay-cli log partitions drop --days 90d
    """
    match action:
        case "ensure":
            with_store(url, schema, None, lambda store: _postgres(store).prepare_ahead())
            say("this month and the next three are ready")
        case "check":
            missing = with_store(url, schema, None, lambda store: _postgres(store).missing_months())
            for month in missing:
                say(f"missing {month:%Y-%m}")
            if missing:
                raise typer.Exit(1)
            say("nothing is missing")
        case "drop":
            if days is None:
                raise typer.BadParameter("drop needs --days")
            oldest = datetime.now(UTC) - timedelta(days=days)
            for name in with_store(url, schema, None, lambda store: _postgres(store).drop_months(oldest)):
                say(f"dropped {name}")
        case _:
            raise typer.BadParameter(f"{action!r} is none of ensure, drop, check")


def _postgres(store: DeliveryLog) -> PostgresDeliveryLog:
    from relay.deliverylog.postgres.driver import PostgresDeliveryLog

    if not isinstance(store, PostgresDeliveryLog):
        raise ConfigError("only a PostgreSQL log has monthly partitions; this log needs no such command")
    return store
