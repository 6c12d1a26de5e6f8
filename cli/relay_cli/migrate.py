"""``relay-cli migrate``: create the outbox table, or its missing indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, LiteralString

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.output import print_json, say
from relay_cli.shared_options import DryRun, Json, StorageUrl, Table, outbox_of

if TYPE_CHECKING:
    from openoutbox.schema import Step
    from relay.outbox.migrate import Plan

app = single_command()

With = Annotated[
    list[str] | None, typer.Option("--with", metavar="EXTENSION", help="Also add this extension. Repeatable.")
]


@app.command("migrate", context_settings=HELP)
def command(
    context: typer.Context,
    dry_run: DryRun = False,
    extensions: With = None,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Create the outbox table and its six indexes if they are missing.

    It may run again, and on several machines at once. On a table that exists, indexes are built
    CONCURRENTLY. A table that differs from the contract is not changed: the error says how it differs. A schema is
    never created. The relay needs SELECT and UPDATE on the table, and does not need this command.

    Extensions are optional parts of the schema: console, fan-out, fleet, key-order, pause, replay-audit, series,
    sql-api, tuning and wake-up. docs/reference/sql.md says what each is for.

    Exit codes: 0 done or up to date, 1 the database fails or the table differs, 2 wrong usage.

    Example: relay-cli migrate --table orders.outbox --dry-run | psql
    """
    from relay.outbox.extensions import add_extension, extension_sql, located
    from relay.outbox.migrate import migrate, plan

    url, name = outbox_of(context, storage_url, table)
    place = located(url, name, extensions or ())
    extra = {extension: extension_sql(extension, place) for extension in extensions or []}
    if dry_run:
        migration = plan(url, name)
        _print_plan(migration, extra) if not as_json else _print_json(migration, extra, dry_run=True)
        return
    migration = migrate(
        url, name, on_step=None if as_json else lambda step: say(f"created {_created_object(step, name)}")
    )
    changed = {extension: add_extension(url, name, extension) for extension in extra}
    _print_json(migration, extra, dry_run=False) if as_json else _print_end(migration, changed)


def _created_object(step: Step, table: object) -> str:
    return f"table {table}" if step.creates == "table" else f"index {step.creates}"


def _print_plan(migration: Plan, extra: dict[str, list[LiteralString]]) -> None:
    """Print SQL for psql; a comment when the table is up to date."""
    if migration.up_to_date:
        say(f"-- table {migration.table} is up to date")
    for step in migration.steps:
        say(step.sql)
    for statements in extra.values():
        for sql in statements:
            say(sql)


def _print_end(migration: Plan, changed: dict[str, bool]) -> None:
    if migration.up_to_date:
        say(f"table {migration.table} is up to date")
    for extension, new in changed.items():
        say(f"added extension {extension}" if new else f"extension {extension} is up to date")


def _print_json(migration: Plan, extra: dict[str, list[LiteralString]], *, dry_run: bool) -> None:
    statements = [{"number": step.number, "creates": step.creates, "sql": step.sql} for step in migration.steps]
    answer = {
        "table": str(migration.table),
        "dry_run": dry_run,
        "up_to_date": migration.up_to_date,
        "statements": statements,
        "extensions": list(extra),
    }
    print_json(answer)
