"""``relay-cli check``: examine a relay's settings, outbox and broker."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from relay.core.finding import Finding, Level
from relay.core.role import Role
from relay.core.secrets import mask_secrets
from relay_cli.groups import HELP, single_command
from relay_cli.inbox_options import Inbox
from relay_cli.output import one_line, print_json, say
from relay_cli.screen import columns, painted, wrapped
from relay_cli.shared_options import Json, StorageUrl, Table, read_settings
from relay_cli.values import age, choice, choices

app = single_command()

For = Annotated[
    Role,
    typer.Option(
        "--for",
        metavar="ROLE",
        parser=choice(Role),
        autocompletion=choices(Role),
        help="The role whose rights and objects are examined.",
    ),
]
DeliveredAge = Annotated[
    float, typer.Option("--delivered-age", metavar="AGE", parser=age, help="The age up to which prune retains events.")
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="NAME", help="The schema of the event store, or of Spark's ledgers.", show_default=False
    ),
]
_CONSOLE = ("DELIVERY_LOG_URL", "DELIVERY_LOG_SCHEMA", "DELIVERY_LOG_PREFIX", "EVENT_STORE_SCHEMA")
Strict = Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")]


@app.command("check", context_settings=HELP)
def command(
    context: typer.Context,
    role: For = Role.RELAY,
    delivered_age: DeliveredAge = "7d",  # type: ignore[assignment]  # typer parses a default as it parses a value
    schema: Schema = None,
    inbox: Inbox = None,
    strict: Strict = False,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Examine a relay's settings, its outbox and its broker, and say how to fix each problem.

    Run it with the relay's environment and database user. It checks the table, its columns and indexes, the
    privileges, the clocks, the broker and its login, a topic or stream for each waiting event type, and whether lease,
    timeouts and the duplicate window of NATS fit together. It warns where relays of the table differ in LEASE_TIMEOUT
    or ON_DELIVERED, when prune is late, and shows the findings of relay-cli causes. It changes nothing.

    With --for it examines the user of another job instead, and names the command or GRANT for what it lacks: prune,
    reader (dashboards, stats, list, show), operator (pause, resume, fleet), console (event store and DELIVERY_LOG_URL
    too), consumer, spark, eventstore (writer, reader, subscriber), deliverylog (recorder, reader; DELIVERY_LOG_URL).

    Exit codes: 0 no errors, 1 an error (with --strict also a warning), 2 wrong usage or an invalid setting.

    Example: relay-cli check --json
    """
    logging.getLogger().addHandler(logging.NullHandler())  # the findings contain the log lines of a broker's client
    if role is Role.RELAY:
        findings = _examine_relay(context, storage_url, table, delivered_age)
    else:
        findings = _examine_role(role, context, storage_url, table, delivered_age, schema, inbox)
    failing = {Level.ERROR, Level.WARNING} if strict else {Level.ERROR}
    failed = any(finding.level in failing for finding in findings)
    if as_json:
        print_json({"ok": not failed, "findings": [finding.answer() for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
    if failed:
        raise typer.Exit(1)


def _examine_relay(
    context: typer.Context, storage_url: str | None, table: str | None, retention: float
) -> list[Finding]:
    from relay.app.doctor import examine
    from relay.settings.variables import NAMES

    return _masked(examine(read_settings(context, storage_url, table, only=NAMES), retention))


def _examine_role(
    role: Role,
    context: typer.Context,
    storage_url: str | None,
    table: str | None,
    retention: float,
    schema: str | None,
    inbox: str | None,
) -> list[Finding]:
    """Read the settings of this role alone: a job that prunes knows no broker."""
    from relay.app.rolecheck import examine_role
    from relay.postgres.sql import TableName
    from relay.settings.locations import log_address
    from relay.settings.settings import Settings

    if role is Role.DELIVERYLOG:
        log_address({})  # ends the command where it is not set, and names what was set in its place
        settings = Settings.from_process(only={"DELIVERY_LOG_URL", "DELIVERY_LOG_SCHEMA", "DELIVERY_LOG_PREFIX"})
    else:
        only = _CONSOLE if role is Role.CONSOLE else ()
        settings = read_settings(context, storage_url, table, only=only)
    name = None if inbox is None else TableName.parse(inbox)
    return _masked(examine_role(role, settings, retention, schema, name))


def _masked(findings: list[Finding]) -> list[Finding]:
    """Without secrets: a finding may hold what a library says of an address."""
    return [finding._replace(message=mask_secrets(finding.message)) for finding in findings]


def _print(finding: Finding) -> None:
    width = columns()
    label = f"{finding.level:<8}"
    text = wrapped(f"{label} {one_line(f'{finding.subject}: {finding.message}')}", width, " " * 9)
    say(painted(finding.level, label) + text.removeprefix(label))
    if finding.advice:
        say(wrapped(f"{'':<8} -> {one_line(finding.advice)}", width, " " * 12))
