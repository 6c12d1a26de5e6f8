"""The output of a --dry-run of a room's migrations: ``relay-cli store migrate`` and ``relay-cli log migrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay_cli.output import say

if TYPE_CHECKING:
    from relay.postgres.migrations import MigrationPlan


def print_pending(plan: MigrationPlan, room: str) -> None:
    """Print what migrate would do, as SQL with comments; for reading, because migrate also records it."""
    if plan.up_to_date:
        say(f"-- {room} is up to date")
    for pending in plan.pending:
        say(f"-- migration {pending.number}: {pending.name}")
        for sql in pending.statements:
            say(f"{sql.rstrip()};")
    if plan.definitions:
        say("-- functions and triggers")
    for sql in plan.definitions:
        say(f"{sql.rstrip()};")
