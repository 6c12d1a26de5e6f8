"""For Alembic: its autogenerate leaves the tables of the outbox and the inbox as they are, or makes them.

    context.configure(connection=connection, target_metadata=metadata, include_name=openoutbox.alembic.include_name)

Without it, autogenerate drops each table that has no model. What makes them is ``relay-cli migrate``, or a migration
with ``create_statements`` (docs/guide/client.md#migrations); or ``tables(metadata)`` declares the two that an
application writes, so that autogenerate makes and compares them like its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from openoutbox.names import DEFAULT_INBOX, DEFAULT_TABLE, TableName, tries_of
from openoutbox.schema import index_name, tables_beside

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Table

_declared: dict[str, set[str | None]] = {}
"""By the name of a table that ``tables`` declared: what is in it."""

IncludeName = Callable[[str | None, Any, Any], bool]
"""What Alembic's ``include_name`` takes: a name, of which kind of thing, and the names of what it is in."""


def leaving_out(*, table: str = DEFAULT_TABLE, inbox: str = DEFAULT_INBOX) -> IncludeName:
    """``include_name`` for an outbox and an inbox of other names. Raises ConfigError for a wrong name."""
    outbox, marks = TableName.parse(table), TableName.parse(inbox)
    beside = (each.table for each in tables_beside(outbox).values())
    ours = {outbox.table, *beside, marks.table, tries_of(marks).table}

    def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:
        if type_ == "table":
            return name not in ours or name in _declared
        # The columns and indexes of extensions stay as they are.
        return name in _declared.get(parent_names.get("table_name") or "", (name,))

    return include_name


include_name: Final = leaving_out()
"""Leaves out the tables of an outbox and an inbox of the usual names, but for those that ``tables`` declared."""


def tables(metadata: MetaData, *, table: str = DEFAULT_TABLE, inbox: str = DEFAULT_INBOX) -> tuple[Table, Table]:
    """Declare the outbox and the inbox in the metadata of an application, as ``relay-cli migrate`` makes them.

    Autogenerate then makes them and compares them. Raises ConfigError for a wrong name, SQLAlchemy's errors where the
    metadata has such a table. Needs SQLAlchemy.
    """
    made = _outbox(metadata, TableName.parse(table)), _inbox(metadata, TableName.parse(inbox))
    for one in made:
        names = (each.name for each in (*one.columns, *one.indexes))
        _declared[one.name] = {None if name is None else str(name) for name in names}
    return made


def _outbox(metadata: MetaData, table: TableName) -> Table:
    import sqlalchemy as sa  # noqa: PLC0415  # an application without it imports this module's names, too
    from sqlalchemy.dialects.postgresql import JSONB  # noqa: PLC0415

    time, now = sa.DateTime(timezone=True), sa.text("now()")
    outbox = sa.Table(
        table.table,
        metadata,
        sa.Column("event_id", sa.Uuid, primary_key=True),
        sa.Column("event_type", sa.Text, nullable=False),
        sa.Column("partition_key", sa.Text),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("headers", JSONB, nullable=False, server_default=sa.text("'{}'::jsonb")),
        sa.Column("status", sa.Text, nullable=False, server_default=sa.text("'PENDING'::text")),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("last_error", sa.Text),
        sa.Column("available_at", time, nullable=False, server_default=now),
        sa.Column("locked_by", sa.Text),
        sa.Column("locked_at", time),
        sa.Column("delivered_at", time),
        sa.Column("created_at", time, nullable=False, server_default=now),
        sa.Column("updated_at", time, nullable=False, server_default=now),
        sa.CheckConstraint("status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')", name="check_valid_status"),
        schema=table.schema,
    )
    _outbox_indexes(outbox, table)
    return outbox


def _outbox_indexes(outbox: Table, table: TableName) -> None:
    import sqlalchemy as sa  # noqa: PLC0415

    columns = outbox.c

    def index(role: str, status: str, *parts: str, include: tuple[str, ...] = ()) -> None:
        where = columns.status == sa.literal_column(f"'{status}'")
        names = [columns[part] for part in parts]
        sa.Index(index_name(table, role), *names, postgresql_where=where, postgresql_include=list(include))

    index("processing_queue", "PENDING", "available_at", "created_at")
    index("stuck_leases", "DELIVERING", "locked_at")
    index("metrics_count", "PENDING", "status", include=("attempts",))
    index("metrics_lag", "PENDING", "status", "created_at")
    index("prune_delivered", "DELIVERED", "delivered_at")
    index("prune_dead", "DEAD", "updated_at")


def _inbox(metadata: MetaData, table: TableName) -> Table:
    import sqlalchemy as sa  # noqa: PLC0415

    received = sa.Column("received_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()"))
    inbox = sa.Table(
        table.table,
        metadata,
        sa.Column("consumer", sa.Text, primary_key=True),
        sa.Column("event_id", sa.Text, primary_key=True),
        received,
        schema=table.schema,
    )
    sa.Index(f"{table.table}_received_at_idx", received)
    return inbox
