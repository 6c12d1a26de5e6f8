"""The table of a write: found once, by the driver, under its full name, and checked before a row is written.

What ``search_path`` makes of the option ``table`` is decided here. All later statements, of the tasks too, and the
ledger name the schema.
"""

from __future__ import annotations

from relay.core.errors import ConfigError, SchemaError
from relay.postgres.connect import SyncConnection
from relay.postgres.sql import TableName, statement
from relay.spark.connection import transaction
from relay.spark.setup import create_ledger, has_ledger
from relay.spark.statements import SparkStatements

_PLAIN_TABLE = "r"  # relkind


def prepare_table(connection: SyncConnection, statements: SparkStatements) -> SparkStatements:
    """The statements for the table's full name. Creates a missing ledger if this role may.

    Raises SchemaError and ConfigError, which name what is missing.
    """
    with transaction(connection):
        outbox = _checked(connection, statements.outbox)
        complete = has_ledger(connection, statements)
    if not complete:
        try:
            create_ledger(connection, statements)
        except SchemaError:  # a missing right
            raise ConfigError(
                f"Spark's ledger in schema {statements.schema} is missing, or of an earlier release, and this role may "
                "not create it; the outbox's owner must run: relay-cli spark setup --role ROLE"
            ) from None
    return SparkStatements(outbox, statements.schema)


def _checked(connection: SyncConnection, table: TableName) -> TableName:
    """The table's full name."""
    sql = statement("spark/outbox:describe_outbox")
    ((schema, name, kind, granted, missing, keyed),) = connection.execute(sql, {"outbox": table.quoted}).fetchall()
    if kind is None:
        raise SchemaError(f"option table: there is no table {table}, or this role may not see its schema")
    if kind != _PLAIN_TABLE:
        raise SchemaError(f"option table: {table} is not a plain table")
    if missing:
        raise SchemaError(f"option table: {table} is not an outbox; it has no column {', '.join(missing)}")
    if not keyed:
        raise SchemaError(
            f"option table: {table} has no primary key event_id, so a repeated task would write its rows twice; its "
            f"owner must run: ALTER TABLE {table.quoted} ADD PRIMARY KEY (event_id)"
        )
    sql = statement("outbox/table:refusing_indexes")
    if refusing := [index for (index,) in connection.execute(sql, {"table": table.quoted})]:
        raise SchemaError(
            f"option table: {table} has the index {', '.join(refusing)}, which may refuse a row with a new event_id; "
            "such a row would be skipped as if its event existed. Drop the index, or write to another table"
        )
    if not granted:
        raise SchemaError(f"this role may not insert into {table}; relay-cli spark setup --role grants it")
    return TableName(name, schema)
