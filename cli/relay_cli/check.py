"""``relay-cli check``: examine a relay's settings, outbox and broker."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from relay.core.finding import Finding, Level
from relay_cli.apps import HELP, command_app
from relay_cli.options import Json, StorageUrl, Table, read_settings
from relay_cli.output import print_json

app = command_app()

Strict = Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")]


@app.command("check", context_settings=HELP)
def command(
    context: typer.Context,
    strict: Strict = False,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Examine a relay's settings, its outbox and its broker, and say how to fix each problem.

    Run it with the relay's environment and database user. It checks the table, its columns and indexes, the
    privileges, the clocks, the broker and its login, a topic or stream for each waiting event type, and whether lease,
    timeouts and the duplicate window of NATS fit together. It warns where another relay on the table shows that it has
    another LEASE_TIMEOUT. It changes nothing.

    Exit codes: 0 no errors, 1 an error (with --strict also a warning), 2 wrong usage or an invalid setting.

    Example: relay-cli check --json
    """
    from relay.app.doctor import examine
    from relay.settings.variables import NAMES

    logging.getLogger().addHandler(logging.NullHandler())  # the findings contain the log lines of a broker's client
    findings = examine(read_settings(context, storage_url, table, only=NAMES))
    failing = {Level.ERROR, Level.WARNING} if strict else {Level.ERROR}
    failed = any(finding.level in failing for finding in findings)
    if as_json:
        print_json({"ok": not failed, "findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
    if failed:
        raise typer.Exit(1)


def _print(finding: Finding) -> None:
    typer.echo(f"{finding.level:<8} {finding.subject}: {finding.message}")
    if finding.advice:
        typer.echo(f"{'':<8} -> {finding.advice}")
