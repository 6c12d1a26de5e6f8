"""The GRANT statements of ``sql/outbox/grants.sql``, and which rights of one a user lacks.

``relay-cli roles`` gives them to the database's roles, ``relay-cli check`` compares them with what a user has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, LiteralString

from openoutbox.schema import sql_api_functions, tables_beside
from relay.core.finding import Finding, Level
from relay.core.role import Role
from relay.outbox.admin.connection import Connection, fetch
from relay.postgres.grants import Holding, bare, holding, rights_of
from relay.postgres.sql import Name, TableName, quote_identifier, statement, statement_names, without_parameters

_FILE: Final = "outbox/grants"
_ROLE: Final = "app_role"
_DELETE: Final = "relay_delete"


def grant_sql(name: str, table: TableName, role: str) -> LiteralString:
    """The statement of ``sql/outbox/grants.sql`` that has this name."""
    objects: dict[str, Name] = {
        _ROLE: role,
        **tables_beside(table),
        **sql_api_functions(table),
    }
    return without_parameters(statement(f"{_FILE}:{name}", table, objects))


def grants(table: TableName, user: str, role: Role, *, delete_delivered: bool = False) -> list[LiteralString]:
    """The statements that grant ``user`` what ``role`` needs on the outbox and its extensions, and no more.

    ``delete_delivered`` says that relays run with ON_DELIVERED=delete.
    """
    names = [name for name in statement_names(_FILE) if name.partition("_")[0] == role]
    return [grant_sql(name, table, user) for name in names if delete_delivered or name != _DELETE]


def lacking_rights(
    connection: Connection, grant: str, user: str, *, where_it_exists: bool = False
) -> Iterator[Finding]:
    """An error that names the rights of ``grant`` that the connection's user lacks; nothing when it has all.

    ``where_it_exists`` says that what does not exist needs no rights.
    """
    held = {right: holding(connection, right) for right in rights_of([grant])}
    lacking = [right for right, each in held.items() if each is not Holding.YES]
    if lacking and not (where_it_exists and Holding.NO_OBJECT in held.values()):
        message = f"{user} lacks {', '.join(map(str, lacking))}"
        yield Finding(Level.ERROR, "rights", message, f"run: {bare(grant)}")


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
