"""The outbox of a job, and the rights of its role, checked before anything is read or written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relay.core.errors import SchemaError
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.spark.statements import SparkStatements


@dataclass(frozen=True, slots=True)
class Outbox:
    """An outbox according to the catalog."""

    name: str
    """Database, schema and table: the same however an option names the table."""
    may_read: bool
    may_insert: bool
    may_delete: bool
    may_lock: bool
    """Whether ``FOR UPDATE`` is allowed."""
    now: datetime
    """The time of the database's clock."""

    def require(self, doing: str, allowed: bool) -> None:
        """Raises SchemaError for a right that this role lacks."""
        if not allowed:
            raise SchemaError(f"this role may not {doing} {self.name}; docs/guide/spark.md has the grants for each job")


def identify(connection: SyncConnection, statements: SparkStatements) -> Outbox:
    """The outbox. Raises SchemaError for a missing table."""
    with translating("reading the outbox"):
        row = connection.execute(
            statements.query("outbox:identify_outbox"), {"outbox": statements.outbox.quoted}
        ).fetchone()
    if row is None:
        raise SchemaError(f"there is no table {statements.outbox}, or this role may not see its schema")
    return Outbox(*row)
