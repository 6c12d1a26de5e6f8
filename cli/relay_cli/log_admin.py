"""The commands of ``relay-cli log`` that change the log: migrate, retention, partitions, copy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay.core.errors import ConfigError
from relay_cli import log_options
from relay_cli.log_options import open_log, with_store
from relay_cli.migrations import print_pending
from relay_cli.options import DryRun
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

    Example: relay-cli log migrate --log-store-url postgres://owner@host:5432/log
    """
    plan = with_store(url, schema, prefix, lambda store: store.migrate(dry_run=dry_run))
    if dry_run:
        print_pending(plan, "the delivery log")
        return
    for pending in plan.pending:
        typer.echo(f"applied migration {pending.number}: {pending.name}")
    typer.echo("the delivery log is up to date")


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
    typer.echo(f"keeping {days} days" if days else "keeping everything")


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
            typer.echo("this month and the next three are ready")
        case "check":
            missing = with_store(url, schema, None, lambda store: _postgres(store).missing_months())
            for month in missing:
                typer.echo(f"missing {month:%Y-%m}")
            if missing:
                raise typer.Exit(1)
            typer.echo("nothing is missing")
        case "drop":
            if days is None:
                raise typer.BadParameter("drop needs --days")
            oldest = datetime.now(UTC) - timedelta(days=days)
            for name in with_store(url, schema, None, lambda store: _postgres(store).drop_months(oldest)):
                typer.echo(f"dropped {name}")
        case _:
            raise typer.BadParameter(f"{action!r} is none of ensure, drop, check")


def copy(
    source: Annotated[str, typer.Option("--from", metavar="URL", help="The log to read.")],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="The log to write; its tables must exist.")],
    after: Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Resume after this cursor.")] = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", parser=Path, help="File that stores the cursor.")
    ] = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Copy a log to another store, also of the other kind.

    After an interruption it resumes at the cursor of the --state file, or of --after. Copying an entry twice is
    harmless.

    Example: relay-cli log copy --from postgres://old/db --to clickhouse://new/db --state copy.cursor
    """
    import asyncio

    start = after or (state.read_text().strip() if state is not None and state.exists() else None)

    async def run() -> int:
        source_log = await open_log(source, schema, prefix)
        try:
            target_log = await open_log(target, schema, prefix)
            try:
                return await _copy(source_log, target_log, start or None, state)
            finally:
                await target_log.close()
        finally:
            await source_log.close()

    typer.echo(f"copied {asyncio.run(run())} attempts")


async def _copy(source: DeliveryLog, target: DeliveryLog, start: str | None, state: Path | None) -> int:
    from relay.deliverylog.copy import copy_log

    total = 0
    async for progress in copy_log(source, target, after=start):
        total = progress.attempts
        if state is not None:
            state.write_text(f"{progress.cursor}\n")  # noqa: ASYNC240 - no other task runs
        typer.echo(f"{progress.attempts} attempts; to resume from here: --after {progress.cursor}", err=True)
    return total


def _postgres(store: DeliveryLog) -> PostgresDeliveryLog:
    from relay.deliverylog.postgres.driver import PostgresDeliveryLog

    if not isinstance(store, PostgresDeliveryLog):
        raise ConfigError("only a PostgreSQL log has monthly partitions; this log needs no such command")
    return store
