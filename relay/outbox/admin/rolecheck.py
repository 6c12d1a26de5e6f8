"""May this database user prune, read or pause the outbox, insert into it, or work as the console?

``check`` answers for a relay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from relay.core.errors import OutboxError
from relay.core.finding import Finding, Level
from relay.core.role import Role
from relay.outbox.admin.connection import Connection, operating
from relay.outbox.admin.grants import grants, hidden_rows, lacking_rights
from relay.outbox.admin.outbox_check import has_table, prune_delay, schema_findings, writable
from relay.outbox.extensions import cancelled_of, changes_of, pauses_of
from relay.outbox.table_check import creation
from relay.postgres.sql import TableName

WORK: Final[Mapping[Role, str]] = {
    Role.WRITER: "insert into",
    Role.PRUNE: "prune",
    Role.READER: "read",
    Role.OPERATOR: "operate",
    Role.CONSOLE: "console",
}
"""The roles that are examined here, and what each does with the table."""
_EXTENSIONS: Final = {Role.OPERATOR: ("pause", (pauses_of,)), Role.CONSOLE: ("console", (changes_of, cancelled_of))}
"""The extension that a role needs, and its tables. It has its rights on others where they exist."""
_BLIND: Final = (Role.WRITER, Role.OPERATOR)
"""These are not asked for how far prune is behind, which reads the outbox."""


def check_role(url: str, table: TableName, role: Role, retention: float) -> list[Finding]:
    """The findings about table, rights and, for prune, how far it is behind. Raises ConfigError for an invalid URL."""
    findings = list(schema_findings(url, table))
    if any(finding.level is Level.ERROR for finding in findings):
        return findings
    try:
        with operating(url, table, "checking") as connection:
            if role is not Role.READER:
                findings.append(writable(connection))
            findings += hidden_rows(connection, table)
            faults = list(_missing(connection, table, role))
            findings += faults or _able(connection, table, role, retention)
    except OutboxError as error:
        findings.append(Finding(Level.ERROR, "database", str(error), "fix this, then run relay-cli check again"))
    return findings


def _able(connection: Connection, table: TableName, role: Role, retention: float) -> Iterator[Finding]:
    yield Finding(Level.OK, "rights", f"{connection.info.user} has the rights to {WORK[role]} {table}")
    if role not in _BLIND:
        yield prune_delay(connection, table, retention)  # reads the outbox: only with the rights


def _missing(connection: Connection, table: TableName, role: Role) -> Iterator[Finding]:
    user = connection.info.user
    extension, places = _EXTENSIONS.get(role, ("", ()))
    absent = [place(table) for place in places if not has_table(connection, place(table))]
    if absent:
        advice = f"run as the owner: {creation(table)} --with {extension}"
        if len(absent) == len(places):
            yield Finding(Level.ERROR, extension, f"table {table} lacks the extension {extension}", advice)
            return
        message = f"there is no table {absent[0]}: the extension {extension} is of an earlier version"
        yield Finding(Level.WARNING, extension, message, advice)
    for grant in grants(table, user, role):
        for fault in lacking_rights(connection, grant, user, where_it_exists=True):
            # Without the function of sql-api it inserts all the same.
            yield fault._replace(level=Level.WARNING) if " ON FUNCTION " in grant else fault
