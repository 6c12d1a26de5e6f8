"""The optional parts of the schema, one file each under ``sql/outbox/extensions``: made on request, never needed."""

from __future__ import annotations

import psycopg

from relay.core.errors import ConfigError
from relay.core.sqltext import TableName, sql_root, statement
from relay.storage.conninfo import connection_parameters
from relay.storage.sqlstate import classify

REPLAYS = "openoutbox_replays"
"""The table of ``replay_audit.sql``."""


def extension_names() -> list[str]:
    """What may be asked for, as the command line spells it."""
    return sorted(path.stem.replace("_", "-") for path in (sql_root() / "outbox/extensions").glob("*.sql"))


def replays_of(table: TableName) -> TableName:
    """The record of the replays of an outbox: one for all outboxes of its schema."""
    return TableName(REPLAYS, table.schema)


def extension_sql(name: str, table: TableName) -> str:
    """The SQL of one extension, as psql takes it. Raises ConfigError for a name that there is not."""
    if name not in extension_names():
        raise ConfigError(f"there is no extension {name!r}; there is {', '.join(extension_names())}")
    path = f"outbox/extensions/{name.replace('-', '_')}.sql"
    return statement(path, table, {REPLAYS: replays_of(table)}).replace("%%", "%")


def add_extension(url: str, table: TableName, name: str) -> None:
    """Apply one extension, in one transaction. Applying it again does nothing."""
    sql = extension_sql(name, table)
    try:
        with psycopg.Connection.connect(**connection_parameters(url, "migrate")) as connection:  # type: ignore[arg-type]
            connection.execute(sql.encode())
    except psycopg.Error as error:
        raise classify(error, f"adding {name}") from error
