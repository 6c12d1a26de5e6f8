"""The output of a --dry-run of a room's migrations: ``relay-cli store migrate`` and ``relay-cli log migrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from relay.postgres.migrations import MigrationPlan


def print_pending(plan: MigrationPlan, room: str) -> None:
    """Print what migrate would do, as SQL with comments; for reading, because migrate also records it."""
    if plan.up_to_date:
        typer.echo(f"-- {room} is up to date")
    for pending in plan.pending:
        typer.echo(f"-- migration {pending.number}: {pending.name}")
        for sql in pending.statements:
            typer.echo(f"{sql.rstrip()};")
    if plan.definitions:
        typer.echo("-- functions and triggers")
    for sql in plan.definitions:
        typer.echo(f"{sql.rstrip()};")
