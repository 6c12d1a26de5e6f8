"""The DDL of the outbox and of the inbox, for any name of the table.

For the migrations of an application, which takes ``create_statements`` and ``inbox_statements``, and for the relay's
own. Pure: nothing here connects. Each file under ``sql/outbox/migrations`` says in its first line what it creates, the
table or one of its indexes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, LiteralString

from openoutbox.errors import ConfigError
from openoutbox.names import (
    BESIDE,
    DEFAULT_INBOX,
    DEFAULT_TABLE,
    DEFAULT_TRIES,
    LONGEST_IDENTIFIER,
    OF_A_SCHEMA,
    Name,
    TableName,
    tries_of,
)
from openoutbox.statements import load_sql, sql_files, statement, statement_names, without_parameters

_FOLDER: Final = "outbox/migrations"
_CREATES: Final = re.compile(r"-- (\d{4}) creates: (table|index (\w+))$")
_DIGEST: Final = 10  # hexadecimal digits
_SQL_API: Final = "outbox/extensions/sql_api"
_SCHEMA: Final = "public"
"""Where ``sql_api.sql`` says that the table is."""

INDEX_ROLES: Final = (
    "processing_queue",
    "stuck_leases",
    "metrics_count",
    "metrics_lag",
    "prune_delivered",
    "prune_dead",
)
"""What each index of the outbox is for; ``index_name`` makes its name of it."""


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


def tables_beside(table: TableName) -> dict[str, TableName]:
    """The tables that extensions make for an outbox, by what the SQL files call them: ``openoutbox_relays``."""
    own = {role: table_name(table, role) for role in BESIDE} | {role: f"openoutbox_{role}" for role in OF_A_SCHEMA}
    return {f"openoutbox_{role}": TableName(name, table.schema) for role, name in own.items()}


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
    return {role: index_name(table, role) for role in INDEX_ROLES}


def steps(table: TableName, *, live: bool, wanted: frozenset[str]) -> tuple[Step, ...]:
    """The migrations that create what ``wanted`` names (``table``, or roles of indexes), in order.

    On a ``live`` table indexes are built CONCURRENTLY, so that writers go on; such a statement may not be part of a
    transaction.
    """
    pending = []
    for path, number, role in _migrations():
        if (role or "table") in wanted:
            creates = index_name(table, role) if role else "table"
            pending.append(Step(number, creates, _sql(path, table, live=live)))
    return tuple(pending)


def create_statements(table: str = DEFAULT_TABLE) -> list[str]:
    """The statements that make a new outbox table with its indexes, for the migrations of an application.

    Django's ``migrations.RunSQL`` and Alembic's ``op.execute`` take them (docs/guide/client.md#migrations).
    ``relay-cli migrate`` makes the same. ``table`` is ``table`` or ``schema.table``; raises ConfigError otherwise.
    """
    wanted = frozenset({"table", *INDEX_ROLES})
    return [step.sql for step in steps(TableName.parse(table), live=False, wanted=wanted)]


def inbox_statements(table: str = DEFAULT_INBOX) -> list[LiteralString]:
    """The statements that make a new inbox with its index, as ``create_statements`` does for an outbox."""
    return _inbox_parts(table, "table", "index")


def dead_letter_statements(table: str = DEFAULT_INBOX) -> list[LiteralString]:
    """The statements that make the table in which ``inbox.process`` counts tries and keeps dead letters.

    ``table`` is the inbox. ``relay-cli inbox migrate --with dead-letters`` makes the same.
    """
    return _inbox_parts(table, "tries", "tries_index")


def _inbox_parts(table: str, *parts: str) -> list[LiteralString]:
    inbox = TableName.parse(table)
    names: dict[str, Name] = {DEFAULT_INBOX: inbox}
    if parts[0] == "tries":
        names = {DEFAULT_TRIES: tries_of(inbox)}
    return [f"{without_parameters(statement(f'inbox/create:{part}', names=names)).rstrip()};" for part in parts]


def sql_api_functions(table: TableName) -> dict[str, TableName]:
    """The functions that announce events of ``table`` and take them back: the default's name, and what it is here."""
    roles = ("enqueue", "enqueue_bytes", "cancel", "reschedule", "same")
    return {f"openoutbox_{role}": TableName(table_name(table, role), table.schema) for role in roles}


def sql_api_statements(table: str = DEFAULT_TABLE) -> list[LiteralString]:
    """The statements that make these functions (docs/guide/sql-api.md), as ``create_statements`` does for the table.

    ``relay-cli migrate --with sql-api`` makes the same. They look for a table that names no schema in ``public``.
    """
    return sql_api(TableName.parse(table))


def sql_api(table: TableName) -> list[LiteralString]:
    """As ``sql_api_statements``."""
    names: dict[str, Name] = {**sql_api_functions(table), _SCHEMA: table.schema or _SCHEMA}
    parts = (statement(f"{_SQL_API}:{part}", table, names) for part in statement_names(_SQL_API))
    return [f"{without_parameters(part).rstrip()};" for part in parts]


def _sql(path: str, table: TableName, *, live: bool) -> LiteralString:
    names = default_index_names(table, INDEX_ROLES)
    return without_parameters(statement(path, table, names, tags=["live"] if live else []))


def default_index_names(table: TableName, roles: Iterable[str]) -> dict[str, str]:
    """The names that the indexes of these roles have on the default table, and what they are called on ``table``."""
    return {f"idx_openoutbox_{role}": index_name(table, role) for role in roles}


@cache
def _migrations() -> tuple[tuple[str, int, str | None], ...]:
    """Path, number and index role (None for the table) of every migration, in order."""
    files = []
    for path in sql_files(_FOLDER):
        header = _CREATES.match(load_sql(path).partition("\n")[0])
        if header is None or not path.startswith(f"{_FOLDER}/{header.group(1)}"):
            raise ConfigError(f"sql/{path}: the first line must be its number and what it creates")
        files.append((path, int(header.group(1)), header.group(3)))
    return tuple(files)
