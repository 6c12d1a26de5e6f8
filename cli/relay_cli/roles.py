"""``relay-cli roles``: the database's roles, each with the rights of its job."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from relay.core.role import Role
from relay.postgres.sql import DEFAULT_SCHEMA
from relay_cli.codes import INCOMPLETE
from relay_cli.groups import HELP, single_command
from relay_cli.inbox_options import Inboxes
from relay_cli.output import print_json, say
from relay_cli.shared_options import DryRun, Json, StorageUrl, Table, read_settings, storage_of
from relay_cli.values import choice

if TYPE_CHECKING:
    from relay.app.database_roles import RolesRequest, RolesResult
    from relay.settings.settings import Settings

app = single_command()

_READ = ("DELIVERY_LOG_SCHEMA", "EVENT_STORE_SCHEMA", "ON_DELIVERED")

For = Annotated[
    str | None,
    typer.Option("--for", metavar="NAME,...", help="Only the roles of these.", show_default="all of them"),
]

Migrator = Annotated[
    list[str] | None,
    typer.Option(
        metavar="USER", help="The user that runs relay-cli migrate: its sessions begin as openoutbox_owner. Repeatable."
    ),
]


@app.command("roles", context_settings=HELP)
def command(
    context: typer.Context,
    roles: For = None,
    table: Table = None,
    inbox: Inboxes = None,
    migrator: Migrator = None,
    dry_run: DryRun = False,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Create the database's roles, and give each the rights of its job and no others.

    Run it as a role with CREATEROLE, not a superuser, that owns the database: before relay-cli migrate, and again
    after it and after each extension, log, store or inbox that was added. It uses a role that exists as it is.
    Afterwards openoutbox_owner owns every object, and the old owner is a member of that. None of the roles can log in:
    make users of yours members of them. --migrator does so for the user that migrates.

    What this user may not do is printed as statements, with the role that must run them, and the exit code is 3: all
    else is done, and running it again finishes. --dry-run prints all statements for psql.

    NAME is one of writer, consumer, relay, prune, reader, operator, console, migrate, deliverylog, eventstore, spark.
    An inbox whose name has no schema is looked for in that of the outbox.
    DELIVERY_LOG_SCHEMA, EVENT_STORE_SCHEMA and ON_DELIVERED are read from the environment.

    Exit codes: 0 done or up to date, 1 the database fails, 2 wrong usage, 3 other roles must run what was printed.

    Example: relay-cli roles --for relay,prune --table orders.outbox --dry-run
    """
    from relay.app.database_roles import set_up, show

    chosen = [choice(Role)(name.strip()) for name in roles.split(",")] if roles is not None else []
    settings = read_settings(context, storage_url, table, only=_READ)
    url, _ = storage_of(settings)
    request = _request(settings, chosen, migrator or [], inbox or [])
    result = show(url, request) if dry_run else set_up(url, request, None if as_json else _report)
    print_json(_answer(result, dry_run=dry_run)) if as_json else _print(result, dry_run=dry_run)
    if result.left.steps and not dry_run:
        raise typer.Exit(INCOMPLETE)


def _request(settings: Settings, chosen: list[Role], migrators: list[str], inboxes: list[str]) -> RolesRequest:
    from relay.app.database_roles import RolesRequest
    from relay.postgres.sql import TableName

    return RolesRequest(
        settings.storage_table_name,
        chosen,
        settings.delivery_log_schema,
        settings.event_store_schema or DEFAULT_SCHEMA,
        delete_delivered=settings.on_delivered == "delete",
        migrators=migrators,
        inboxes=[TableName.parse(name) for name in inboxes],
    )


def _report(sql: str) -> None:
    say(f"{sql};")


def _print(result: RolesResult, *, dry_run: bool) -> None:
    """The statements as SQL, all else as its comments."""
    if result.left.up_to_date and not result.done:
        say(f"-- the roles of {result.table} are up to date")
    elif result.left.steps and not dry_run:
        say(f"-- {result.left.user} may not do the rest; when it is done, run relay-cli roles again")
    for by, steps in groupby(result.left.steps, key=lambda step: step.by):
        say(f"-- run as {by}:")
        for step in steps:
            together = len(step.statements) > 1
            for sql in ("BEGIN", *step.statements, "COMMIT") if together else step.statements:
                say(f"{sql};")
    for line in result.absent:
        say(f"-- {line}, then run relay-cli roles again")


def _answer(result: RolesResult, *, dry_run: bool) -> dict[str, object]:
    left = [{"run_as": step.by, "statements": list(step.statements)} for step in result.left.steps]
    return {
        "table": str(result.table),
        "dry_run": dry_run,
        "up_to_date": result.left.up_to_date and not result.done,
        "done": list(result.done),
        "left": left,
        "absent": list(result.absent),
    }
