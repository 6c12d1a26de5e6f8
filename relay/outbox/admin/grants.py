"""The GRANT statements of ``sql/outbox/grants.sql``, and which rights of one a user lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from relay.core.finding import Finding, Level
from relay.outbox.admin.connection import Connection, fetch
from relay.outbox.extensions import CHANGES, PAUSES, RELAYS, changes_of, pauses_of, relays_of
from relay.postgres.grants import Holding, holding, rights_of
from relay.postgres.sql import Name, TableName, quote_identifier, statement, without_parameters

_ROLE = "app_role"


def grant_sql(name: str, table: TableName, role: str) -> LiteralString:
    """The statement of ``sql/outbox/grants.sql`` that has this name."""
    objects: dict[str, Name] = {
        _ROLE: role,
        CHANGES: changes_of(table),
        PAUSES: pauses_of(table),
        RELAYS: relays_of(table),
    }
    return without_parameters(statement(f"outbox/grants:{name}", table, objects))


def lacking_rights(connection: Connection, grant: str, user: str) -> Iterator[Finding]:
    """An error that names the rights of ``grant`` that the connection's user lacks; nothing when it has all."""
    lacking = [right for right in rights_of([grant]) if holding(connection, right) is not Holding.YES]
    if lacking:
        message = f"{user} lacks {', '.join(map(str, lacking))}"
        yield Finding(Level.ERROR, "rights", message, f"run: {_bare(grant)}")


def hidden_rows(connection: Connection, table: TableName) -> Iterator[Finding]:
    """A warning where row-level security applies to the connection's user, which then sees fewer rows."""
    [(active,)] = fetch(connection, statement("outbox/table:row_security"), {"table": table.quoted})
    if active:
        user = connection.info.user
        message = (
            f"row-level security of {table} applies to {user}: events that its policies hide are not delivered, "
            "counted, listed or pruned by this user"
        )
        to = quote_identifier(user)
        advice = (
            f"unless that is intended, ALTER ROLE {to} BYPASSRLS as a superuser, or give {to} a policy USING (true)"
        )
        yield Finding(Level.WARNING, "rights", message, advice)


def _bare(grant: str) -> str:
    return " ".join(line for line in grant.splitlines() if not line.startswith("--"))
