"""May this database user prune, read or pause the outbox, or work as the console? ``check`` answers for a relay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, LiteralString

from relay.core.errors import OutboxError
from relay.core.finding import Finding, Level
from relay.outbox.admin.check import has_table, prune_delay, schema_findings, writable
from relay.outbox.admin.connection import Connection, operating
from relay.outbox.admin.grants import grant_sql, hidden_rows, lacking_rights
from relay.outbox.extensions import changes_of, pauses_of
from relay.outbox.tablecheck import creation
from relay.postgres.sql import TableName, statement_names

Work = Literal["prune", "read", "operate", "console"]

_EXTENSIONS = {"operate": ("pause", pauses_of), "console": ("console", changes_of)}
"""The extension that a purpose needs, and its table."""


def grants(table: TableName, role: str, purpose: Work) -> list[LiteralString]:
    """The statements that grant ``role`` what ``purpose`` needs on the outbox, and no more."""
    names = [name for name in statement_names("outbox/grants") if name.split("_")[0] == purpose]
    return [grant_sql(name, table, role) for name in names]


def check_role(url: str, table: TableName, purpose: Work, retention: float) -> list[Finding]:
    """The findings about table, rights and, for prune, how far it is behind. Raises ConfigError for an invalid URL."""
    findings = list(schema_findings(url, table))
    if any(finding.level is Level.ERROR for finding in findings):
        return findings
    try:
        with operating(url, table, "checking") as connection:
            if purpose != "read":
                findings.append(writable(connection))
            findings += hidden_rows(connection, table)
            faults = list(_missing(connection, table, purpose))
            findings += faults or _able(connection, table, purpose, retention)
    except OutboxError as error:
        findings.append(Finding(Level.ERROR, "database", str(error), "fix this, then run relay-cli check again"))
    return findings


def _able(connection: Connection, table: TableName, purpose: Work, retention: float) -> Iterator[Finding]:
    yield Finding(Level.OK, "rights", f"{connection.info.user} has the rights to {purpose} {table}")
    if purpose != "operate":
        yield prune_delay(connection, table, retention)  # reads the outbox: only with the rights


def _missing(connection: Connection, table: TableName, purpose: Work) -> Iterator[Finding]:
    user = connection.info.user
    extension, place = _EXTENSIONS.get(purpose, ("", None))
    if place is not None and not has_table(connection, place(table)):
        advice = f"run as the owner: {creation(table)} --with {extension}"
        yield Finding(Level.ERROR, extension, f"table {table} lacks the extension {extension}", advice)
        return
    for grant in grants(table, user, purpose):
        yield from lacking_rights(connection, grant, user)
