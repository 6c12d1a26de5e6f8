"""The roles of every room, for ``relay-cli roles``: what each may do with what is there, and what the owner owns.

The rights come from the ``grants.sql`` of each room. The outbox is named with its schema, wherever the user's
search_path found it. Raises ConfigError, SchemaError for a schema that does not exist, StorageError.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, cast

from openoutbox.schema import dead_letter_statements, inbox_statements, steps
from relay.core.errors import SchemaError
from relay.core.role import Role
from relay.deliverylog.postgres.statements import PostgresStatements
from relay.eventstore.schema import Access
from relay.eventstore.schema import grants as store_grants
from relay.eventstore.statements import EventStoreStatements
from relay.inbox.grants import grants as inbox_grants
from relay.inbox.grants import inbox_beside
from relay.outbox.admin.grants import grant_sql
from relay.outbox.admin.grants import grants as outbox_grants
from relay.outbox.extensions import extension_names, extension_sql
from relay.outbox.table_check import creation
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.operator_connections import operator_connection
from relay.postgres.roles import GROUPS, OWNER, Grant, RoleGroup, RolesPlan, WantedRoles, apply, foreign_objects, plan
from relay.postgres.sql import (
    DEFAULT_INBOX,
    DEFAULT_LOG_SCHEMA,
    DEFAULT_SCHEMA,
    TableName,
    load_sql,
    quote_identifier,
    sql_files,
    statement,
    without_parameters,
)
from relay.spark.statements import DEFAULT_SCHEMA as SPARK_SCHEMA
from relay.spark.statements import SparkStatements

_CREATE: Final = r"\bCREATE (?:OR REPLACE )?(?:TABLE|SEQUENCE|FUNCTION|PROCEDURE) (?:IF NOT EXISTS )?"
_CREATED: Final = re.compile(_CREATE + r'("(?:[^"]|"")+"\."(?:[^"]|"")+")')
_STORE_CREATED: Final = re.compile(_CREATE + r"public\.(\w+)")
_OUTBOX: Final = (Role.WRITER, Role.RELAY, Role.PRUNE, Role.READER, Role.OPERATOR, Role.CONSOLE)
_EACH: Final = "app_role"


@dataclass(frozen=True, slots=True)
class RolesRequest:
    """What ``relay-cli roles`` is asked for."""

    table: TableName
    roles: Collection[Role] = ()
    """Empty means all."""
    log_schema: str = DEFAULT_LOG_SCHEMA
    store_schema: str = DEFAULT_SCHEMA
    delete_delivered: bool = False
    """ON_DELIVERED is ``delete``: the relay's role may delete."""
    migrators: Sequence[str] = ()
    """The users that migrate."""
    inboxes: Sequence[TableName] = ()
    """Empty means the one of the default name. In the outbox's schema where a name has none."""


@dataclass(frozen=True, slots=True)
class RolesResult:
    """What was done, and what is left."""

    table: TableName
    left: RolesPlan
    done: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """What is not there yet, and which command makes it; the roles get their rights on it by another run."""


def show(url: str, request: RolesRequest) -> RolesResult:
    """What is missing. Reads the catalog only."""
    with operator_connection(url) as connection:
        wanted, absent = _wanted(connection, request)
        return RolesResult(wanted.outbox, plan(connection, wanted), (), absent)


def set_up(url: str, request: RolesRequest, report: Callable[[str], None] | None = None) -> RolesResult:
    """Do what this user may; ``report`` receives each statement that has taken effect."""
    with operator_connection(url) as connection:
        return set_up_on(connection, request, report)


def set_up_on(
    connection: SyncConnection, request: RolesRequest, report: Callable[[str], None] | None = None
) -> RolesResult:
    """Likewise on a connection in autocommit mode."""
    wanted, absent = _wanted(connection, request)
    done: list[str] = []

    def took_effect(sql: str) -> None:
        done.append(sql)
        if report is not None:
            report(sql)

    left = apply(connection, wanted, took_effect)
    return RolesResult(wanted.outbox, left, tuple(done), absent)


def not_owned(connection: SyncConnection, request: RolesRequest) -> dict[str, list[str]]:
    """The objects of ours for whose owner this user cannot act, by their owner."""
    wanted, _ = _wanted(connection, request)
    user = connection.info.user
    others: dict[str, list[str]] = {}
    for found in foreign_objects(connection, user, wanted):
        if connection.execute(statement("rights:acts_as"), {"holder": found.holder}).fetchone() != (True,):
            others.setdefault(found.holder, []).append(found.object)
    return others


def inbox_migrate(inbox: TableName) -> str:
    """The command of ``relay-cli`` that makes an inbox."""
    is_default = inbox.table == DEFAULT_INBOX and inbox.schema in (None, DEFAULT_SCHEMA)
    return "inbox migrate" + ("" if is_default else f" --table {shlex.quote(str(inbox))}")


def schema_option(schema: str) -> str:
    """The option of ``relay-cli`` that names the schema of an event store, with a blank before it."""
    return "" if schema == DEFAULT_SCHEMA else f" --schema {shlex.quote(schema)}"


def store_positions(connection: SyncConnection, schema: str) -> str | None:
    """How the event store of a schema numbers; None where there is none."""
    if not _exists(connection, schema, "event_store"):
        return None
    return "gapless" if _exists(connection, schema, "event_position") else "settled"


def _wanted(connection: SyncConnection, request: RolesRequest) -> tuple[WantedRoles, tuple[str, ...]]:
    roles = {*(request.roles or Role), *([Role.MIGRATE] if request.migrators else [])}
    groups = [group for group in GROUPS if group.role in roles]
    with translating("looking for what the roles work on"):
        table, exists = _located(connection, request.table)
        rooms = Rooms(table, request, store_positions(connection, request.store_schema))
        absent = _absent(connection, rooms, roles) if request.roles else ()
    grants = [Grant(group.name, sql) for group in groups for sql in _on_schemas(connection, rooms, group)]
    grants += [Grant(group.name, sql) for group in groups for sql in rooms.grants(group)]
    if not exists and any(role in _OUTBOX for role in roles):
        absent = (f"there is no table {table}; make it: {creation(table)}", *absent)
    objects, schemas = rooms.objects()
    writing = [grant_sql("writer_events", table, _EACH)]
    names = [group.name for group in groups]
    return WantedRoles(names, grants, objects, schemas, table, writing, request.migrators), absent


def _located(connection: SyncConnection, table: TableName) -> tuple[TableName, bool]:
    """The table with the schema that it is in or would be made in, and whether it is there."""
    schema = quote_identifier(table.schema) if table.schema else None
    found = {"table": table.quoted if schema is None else None, "schema": schema}  # a name with it asks for USAGE
    *_, name = connection.execute(statement("outbox/migrate:relation"), found).fetchall()[0]
    if name is None:
        named = f"schema {table.schema}" if table.schema else "a schema of the search_path"
        raise SchemaError(f"{named} does not exist; create it first: CREATE SCHEMA {schema or '...'}")
    return TableName(table.table, name), _exists(connection, name, table.table)


def _on_schemas(connection: SyncConnection, rooms: Rooms, group: RoleGroup) -> list[str]:
    """The rights on the schemas of outbox and inboxes, and for the owner on the database."""
    owner = group.name == OWNER
    tables = [rooms.table] if owner or group.role in (*_OUTBOX, Role.SPARK) else []
    tables += [inbox for inbox in rooms.inboxes if owner or inbox_grants(inbox, group.name, group.role)]
    schemas = dict.fromkeys(str(table.schema) for table in tables)
    wanted = [("create_in_schema" if owner else "use_schema", {"public": schema}) for schema in schemas]
    wanted += [("create_in_database", {"this_database": connection.info.dbname})] if owner else []
    names = {"app_role": group.name}
    return [without_parameters(statement(f"roles:{name}", names=names | more)) for name, more in wanted]


def _absent(connection: SyncConnection, rooms: Rooms, roles: Collection[Role]) -> tuple[str, ...]:
    """What was asked for and does not exist, but for the outbox."""
    log = rooms.request.log_schema
    places = {
        Role.DELIVERYLOG: (TableName("attempts", log), f"delivery log in schema {log}", "log migrate"),
        Role.EVENTSTORE: (
            TableName("event_store", rooms.request.store_schema),
            f"event store in schema {rooms.request.store_schema}",
            "store migrate",
        ),
        Role.SPARK: (TableName("runs", SPARK_SCHEMA), "ledger of Spark", "spark setup"),
    }
    asked = [place for role, place in places.items() if role in roles]
    if Role.CONSUMER in roles:
        asked = [*((inbox, f"table {inbox}", inbox_migrate(inbox)) for inbox in rooms.inboxes), *asked]
    return tuple(
        f"there is no {noun}; make it: relay-cli {command}"
        for place, noun, command in asked
        if not _exists(connection, str(place.schema), place.table)
    )


def _exists(connection: SyncConnection, schema: str, name: str) -> bool:
    row = connection.execute(statement("rights:exists"), {"schema": schema, "name": name}).fetchone()
    return row is not None and bool(row[0])


class Rooms:
    """What the roles may do in each room, whether it exists in a database or not. Connects to nothing."""

    def __init__(self, table: TableName, request: RolesRequest, positions: str | None) -> None:
        """``positions`` says how an event store numbers; None leaves the store out."""
        self.request = request
        self.table = table
        self.inboxes = [inbox_beside(table, name) for name in request.inboxes or [TableName(DEFAULT_INBOX)]]
        self._positions = positions

    def grants(self, group: RoleGroup) -> list[str]:
        """The statements that give a group its rights, also on what does not exist."""
        name, role, request = group.name, group.role, self.request
        is_console = role is Role.CONSOLE
        sqls: list[str] = []
        if role in _OUTBOX:
            sqls += outbox_grants(self.table, name, role, delete_delivered=request.delete_delivered)
        sqls += [sql for inbox in self.inboxes for sql in inbox_grants(inbox, name, role)]
        if is_console or role is Role.DELIVERYLOG:
            sqls += PostgresStatements(request.log_schema).grants(name, "read" if is_console else group.access)
        if (is_console or role is Role.EVENTSTORE) and self._positions is not None:
            access = cast("Access", group.access)
            sqls += store_grants(EventStoreStatements(request.store_schema), self._positions, name, access)
        if role is Role.SPARK:
            spark = SparkStatements(self.table, SPARK_SCHEMA)
            sqls += spark.grants(name, group.access) + ([spark.comparing(name)] if group.access == "write" else [])
        return sqls

    def objects(self) -> tuple[list[str], list[str]]:
        """The names of what the owner owns, and the schemas that it owns as a whole; also of what does not exist."""
        created = [step.sql for step in steps(self.table, live=False, wanted=frozenset({"table"}))]
        created += [sql for name in extension_names() for sql in extension_sql(name, self.table)]
        for inbox in map(str, self.inboxes):
            created += [*inbox_statements(inbox), *dead_letter_statements(inbox)]
        names = [match[1] for sql in created for match in _CREATED.finditer(sql)]
        schemas = [self.request.log_schema, SPARK_SCHEMA]
        if self._positions is not None:
            names += _created_by_store(self.request.store_schema)
            schemas.append(self.request.store_schema)
        return names, [schema for schema in schemas if schema not in (DEFAULT_SCHEMA, self.table.schema)]


def _created_by_store(schema: str) -> list[str]:
    """The store's tables and functions; the partitions of tenants belong to the table."""
    names = {name.lower() for file in sql_files("eventstore") for name in _STORE_CREATED.findall(load_sql(file))}
    return [TableName(name, schema).quoted for name in sorted(names | {"event_migration"})]
