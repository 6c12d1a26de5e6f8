"""May this database user prune the outbox, or read it? ``relay.outbox.admin.check`` answers that for a relay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, LiteralString

from relay.core.errors import OutboxError
from relay.core.finding import Finding, Level
from relay.outbox.admin.check import prune_delay, schema_findings, writable
from relay.outbox.admin.connection import Connection, operating
from relay.postgres.grants import Holding, holding, rights_of
from relay.postgres.sql import TableName, statement, statement_names, without_parameters

Work = Literal["prune", "read"]

_ROLE = "app_role"


def grants(table: TableName, role: str, purpose: Work) -> list[LiteralString]:
    """The statements that grant ``role`` what ``purpose`` needs on the outbox, and no more."""
    names = [name for name in statement_names("outbox/grants") if name.split("_")[0] == purpose]
    return [without_parameters(statement(f"outbox/grants:{name}", table, {_ROLE: role})) for name in names]


def check_role(url: str, table: TableName, purpose: Work, retention: float) -> list[Finding]:
    """The findings about table, rights and, for prune, how far it is behind. Raises ConfigError for an invalid URL."""
    findings = list(schema_findings(url, table))
    if any(finding.level is Level.ERROR for finding in findings):
        return findings
    try:
        with operating(url, table, "checking") as connection:
            if purpose == "prune":
                findings.append(writable(connection))
            faults = list(_missing(connection, table, purpose))
            user = connection.info.user
            able = Finding(Level.OK, "rights", f"{user} has the rights to {purpose} {table}")
            findings += faults or [able, prune_delay(connection, table, retention)]
    except OutboxError as error:
        findings.append(Finding(Level.ERROR, "database", str(error), "fix this, then run relay-cli check again"))
    return findings


def _missing(connection: Connection, table: TableName, purpose: Work) -> Iterator[Finding]:
    user = connection.info.user
    for grant in grants(table, user, purpose):
        lacking = [right for right in rights_of([grant]) if holding(connection, right) is not Holding.YES]
        if lacking:
            message = f"{user} lacks {', '.join(map(str, lacking))}"
            yield Finding(Level.ERROR, "rights", message, f"run: {_bare(grant)}")


def _bare(grant: str) -> str:
    return " ".join(line for line in grant.splitlines() if not line.startswith("--"))
