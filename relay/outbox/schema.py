"""The outbox table's schema as the contract has it: the migrations for any table name, and what a table must be.

Pure: nothing here connects. Each file under ``sql/outbox/migrations`` says in its first line what it creates, the
table or one of the indexes; whether it must be applied is read from the catalog (``relay.outbox.migrate``), not
from a list of what once was, so that a table made by hand needs no second truth.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, LiteralString

from relay.core.errors import ConfigError
from relay.postgres.sql import (
    DEFAULT_TABLE,
    LONGEST_IDENTIFIER,
    TableName,
    load_sql,
    sql_root,
    statement,
    without_parameters,
)

_FOLDER: Final = "outbox/migrations"
_CREATES: Final = re.compile(r"-- (\d{4}) creates: (table|index (\w+))$")
_DIGEST: Final = 10  # hexadecimal digits

CHECK_NAME: Final = "check_valid_status"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the catalog describes it; ``default`` in PostgreSQL's own words."""

    name: str
    type: str
    required: bool = False
    default: str | None = None

    def __str__(self) -> str:
        required = " NOT NULL" if self.required else ""
        return f"{self.type}{required}{f' DEFAULT {self.default}' if self.default is not None else ''}"


_NOW: Final = "now()"

COLUMNS: Final = (
    Column("event_id", "uuid", required=True),
    Column("event_type", "text", required=True),
    Column("partition_key", "text"),
    Column("payload", "bytea", required=True),
    Column("headers", "jsonb", required=True, default="'{}'::jsonb"),
    Column("status", "text", required=True, default="'PENDING'::text"),
    Column("attempts", "integer", required=True, default="0"),
    Column("last_error", "text"),
    Column("available_at", "timestamp with time zone", required=True, default=_NOW),
    Column("locked_by", "text"),
    Column("locked_at", "timestamp with time zone"),
    Column("delivered_at", "timestamp with time zone"),
    Column("created_at", "timestamp with time zone", required=True, default=_NOW),
    Column("updated_at", "timestamp with time zone", required=True, default=_NOW),
)

INDEXES: Final = {
    "processing_queue": "USING btree (available_at, created_at) WHERE (status = 'PENDING'::text)",
    "stuck_leases": "USING btree (locked_at) WHERE (status = 'DELIVERING'::text)",
    "metrics_count": "USING btree (status) INCLUDE (attempts) WHERE (status = 'PENDING'::text)",
    "metrics_lag": "USING btree (status, created_at) WHERE (status = 'PENDING'::text)",
    "prune_delivered": "USING btree (delivered_at) WHERE (status = 'DELIVERED'::text)",
    "prune_dead": "USING btree (updated_at) WHERE (status = 'DEAD'::text)",
}
"""What each index is, in the words of ``pg_get_indexdef``."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement that migrate applies, ready for its table."""

    number: int
    creates: str
    """``table``, or the index's name."""
    sql: LiteralString


def index_name(table: TableName, role: str) -> str:
    """The name of one of the six indexes of ``table``.

    The contract's own for the contract's table. For another table its name takes the place of ``openoutbox``; where
    that would be over 63 bytes, or would be the contract's own name, a digest of the table's name stands in it, so
    that the names of two tables never meet.
    """
    return _name(table, "idx_", role)


def table_name(table: TableName, role: str) -> str:
    """The name of a table that stands beside ``table``, by the rule of ``index_name``: ``openoutbox_relays``."""
    return _name(table, "", role)


def _name(table: TableName, prefix: str, role: str) -> str:
    if table.table == DEFAULT_TABLE:
        return f"{prefix}openoutbox_{role}"
    plain = f"{prefix}{table.table}_{role}"
    if len(plain.encode()) <= LONGEST_IDENTIFIER and table.table != "openoutbox":
        return plain
    digest = hashlib.sha256(table.table.encode()).hexdigest()[:_DIGEST]
    room = LONGEST_IDENTIFIER - len(f"{prefix}_{digest}_{role}")
    return f"{prefix}{table.table.encode()[:room].decode(errors='ignore')}_{digest}_{role}"


def index_names(table: TableName) -> dict[str, str]:
    """Role to name, all six."""
    return {role: index_name(table, role) for role in INDEXES}


def steps(table: TableName, *, live: bool, wanted: frozenset[str]) -> tuple[Step, ...]:
    """The migrations that create what ``wanted`` names (``table``, or roles of indexes), in order.

    On a ``live`` table indexes are built CONCURRENTLY, so that writers go on; such a statement may not be part of a
    transaction.
    """
    pending = []
    for path, number, role in _migrations():
        if (role or "table") in wanted:
            creates = index_name(table, role) if role else "table"
            pending.append(Step(number, creates, _statement(path, table, live=live)))
    return tuple(pending)


def create_statements(table: str = DEFAULT_TABLE) -> list[str]:
    """The statements that make a new outbox table with its indexes, for the migrations of an application.

    Django's ``migrations.RunSQL`` and Alembic's ``op.execute`` take them (docs/guide/client.md#migrations).
    ``relay-cli migrate`` makes the same. ``table`` is ``table`` or ``schema.table``; raises ConfigError otherwise.
    """
    wanted = frozenset({"table", *INDEXES})
    return [step.sql for step in steps(TableName.parse(table), live=False, wanted=wanted)]


def _statement(path: str, table: TableName, *, live: bool) -> LiteralString:
    names = default_index_names(table, INDEXES)
    return without_parameters(statement(path, table, names, tags=["live"] if live else []))


def default_index_names(table: TableName, roles: Iterable[str]) -> dict[str, str]:
    """The names that the indexes of these roles have on the default table, and what they are called on ``table``."""
    return {f"idx_openoutbox_{role}": index_name(table, role) for role in roles}


@cache
def _migrations() -> tuple[tuple[str, int, str | None], ...]:
    """Path, number and index role (None for the table) of every migration, in order."""
    files = []
    for file in sorted((sql_root() / _FOLDER).glob("*.sql")):
        path = f"{_FOLDER}/{file.name}"
        header = _CREATES.match(load_sql(path).partition("\n")[0])
        if header is None or not file.name.startswith(header.group(1)):
            raise ConfigError(f"sql/{path}: the first line must be its number and what it creates")
        files.append((path, int(header.group(1)), header.group(3)))
    return tuple(files)
