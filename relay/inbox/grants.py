"""The GRANT statements of ``sql/inbox/grants.sql``, the one list of rights on an inbox."""

from __future__ import annotations

from typing import LiteralString

from openoutbox.names import DEFAULT_TRIES, tries_of
from relay.core.role import Role
from relay.postgres.sql import DEFAULT_INBOX, Name, TableName, statement, statement_names, without_parameters


def inbox_beside(outbox: TableName, name: TableName | None = None) -> TableName:
    """The inbox of this name, or else of the default one; in the outbox's schema where ``name`` has none."""
    return TableName(name.table if name else DEFAULT_INBOX, (name and name.schema) or outbox.schema)


def grants(inbox: TableName, group: str, role: Role) -> list[LiteralString]:
    """The statements that grant ``group`` what ``role`` needs on the inbox and on the tries beside it."""
    names: dict[str, Name] = {"app_role": group, DEFAULT_INBOX: inbox, DEFAULT_TRIES: tries_of(inbox)}
    path = "inbox/grants"
    return [
        without_parameters(statement(f"{path}:{name}", names=names))
        for name in statement_names(path)
        if name.partition("_")[0] == role
    ]
