"""A table made by hand as docs/reference/conformance.md#the-table asks, which records each of its changes."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from urllib.parse import urlsplit

from psycopg import sql
from psycopg.rows import dict_row

from tests.support.daemon import Daemon
from tests.support.fixtures.postgres import Database

_TABLE: LiteralString = """
CREATE TABLE {table} (
    event_id UUID PRIMARY KEY,
    event_type TEXT NOT NULL,
    partition_key TEXT,
    payload BYTEA NOT NULL,
    headers JSONB NOT NULL DEFAULT '{{}}',
    status TEXT NOT NULL DEFAULT 'PENDING',
    attempts INT NOT NULL DEFAULT 0,
    last_error TEXT,
    available_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    locked_by TEXT,
    locked_at TIMESTAMPTZ,
    delivered_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    CONSTRAINT check_valid_status CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')),
    CHECK ((status = 'DELIVERING') = (locked_at IS NOT NULL) AND (locked_at IS NULL) = (locked_by IS NULL)),
    CHECK ((status = 'DELIVERED') = (delivered_at IS NOT NULL))
)
"""
_HISTORY: LiteralString = """
CREATE TABLE history (
    place BIGINT GENERATED ALWAYS AS IDENTITY, event_id UUID, status TEXT, attempts INT, last_error TEXT,
    available_at TIMESTAMPTZ, locked_by TEXT, locked_at TIMESTAMPTZ, delivered_at TIMESTAMPTZ, updated_at TIMESTAMPTZ,
    same BOOLEAN, was_status TEXT, was_attempts INT, was_available_at TIMESTAMPTZ, was_updated_at TIMESTAMPTZ,
    was_locked_at TIMESTAMPTZ
);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO public.history (
        event_id, status, attempts, last_error, available_at, locked_by, locked_at, delivered_at, updated_at,
        same, was_status, was_attempts, was_available_at, was_updated_at, was_locked_at
    ) VALUES (
        NEW.event_id, NEW.status, NEW.attempts, NEW.last_error, NEW.available_at, NEW.locked_by, NEW.locked_at,
        NEW.delivered_at, NEW.updated_at,
        (OLD.event_id, OLD.event_type, OLD.payload, OLD.created_at, OLD.partition_key, OLD.headers)
        IS NOT DISTINCT FROM
        (NEW.event_id, NEW.event_type, NEW.payload, NEW.created_at, NEW.partition_key, NEW.headers),
        OLD.status, OLD.attempts, OLD.available_at, OLD.updated_at, OLD.locked_at
    );
    RETURN NULL;
END $$
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change of one row."""

    event_id: str
    was_status: str
    status: str
    was_attempts: int
    attempts: int
    last_error: str | None
    was_available_at: datetime
    available_at: datetime
    locked_by: str | None
    was_locked_at: datetime | None
    locked_at: datetime | None
    delivered_at: datetime | None
    was_updated_at: datetime
    updated_at: datetime
    same: bool

    @property
    def step(self) -> tuple[str, str]:
        return self.was_status, self.status

    @property
    def delay(self) -> float:
        """Seconds from the change to when the row is due; both are the transaction's time."""
        return (self.available_at - self.updated_at).total_seconds()


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """The table, and a user that may only SELECT and UPDATE it."""

    database: Database
    table: str
    schema: str
    url: str

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.table)

    @classmethod
    def create(cls, database: Database, table: str = "openoutbox_events", schema: str = "public") -> WatchedTable:
        user, password = f"relay_{uuid.uuid4().hex[:12]}", secrets.token_hex(8)
        parts = urlsplit(database.url)
        host = parts.netloc.rpartition("@")[2]
        watched = cls(database, table, schema, parts._replace(netloc=f"{user}:{password}@{host}").geturl())
        role = sql.Identifier(user)
        with database.connect() as connection:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            connection.execute(sql.SQL(_TABLE).format(table=watched.identifier))
            connection.execute(_HISTORY)
            trigger = "CREATE TRIGGER note AFTER UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION public.note()"
            connection.execute(sql.SQL(trigger).format(watched.identifier))
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(password)))
            connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), role))
            connection.execute(sql.SQL("GRANT SELECT, UPDATE ON {} TO {}").format(watched.identifier, role))
        return watched

    def drop_user(self) -> None:
        user = sql.Identifier(urlsplit(self.url).username or "")
        with self.database.connect() as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(user))
            connection.execute(sql.SQL("DROP ROLE {}").format(user))

    def insert(self, event_type: str, **columns: object) -> str:
        """One row as an application inserts it, with further columns where given. A value that is an
        ``sql.SQL`` is an expression.
        """
        values: dict[str, object] = {
            "event_id": str(uuid.uuid4()),
            "event_type": event_type,
            "payload": b"x",
            **columns,
        }
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            self.identifier,
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(v if isinstance(v, sql.SQL) else sql.Literal(v) for v in values.values()),
        )
        with self.database.connect() as connection:
            connection.execute(statement)
        return str(values["event_id"])

    def row(self, event_id: str) -> dict[str, Any]:
        with self.database.connect() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            query = sql.SQL("SELECT * FROM {} WHERE event_id = {}").format(self.identifier, sql.Literal(event_id))
            record = cursor.execute(query).fetchone()
            assert record is not None
            return record

    def statuses(self) -> dict[str, str]:
        with self.database.connect() as connection:
            query = sql.SQL("SELECT event_id::text, status FROM {}").format(self.identifier)
            return dict(connection.execute(query).fetchall())

    def take_away(self, event_id: str) -> None:
        """What another relay's reaper does, with a long delay."""
        statement = """
            UPDATE {} SET status = 'PENDING', attempts = attempts + 1, last_error = 'taken back', locked_by = NULL,
            locked_at = NULL, updated_at = NOW(), available_at = NOW() + INTERVAL '1 day' WHERE event_id = {}
        """
        with self.database.connect() as connection:
            connection.execute(sql.SQL(statement).format(self.identifier, sql.Literal(event_id)))

    def changes(self, event_id: str) -> list[Change]:
        columns = ", ".join(Change.__dataclass_fields__).replace("event_id", "event_id::text")
        rows = self.database.run(f"SELECT {columns} FROM history WHERE event_id = %s ORDER BY place", [event_id])
        return [Change(*row) for row in rows]


@contextmanager
def relay_of(table: WatchedTable, **env: str) -> Iterator[Daemon]:
    """A daemon that works on the table as the user with few rights."""
    with Daemon(table.url, {"STORAGE_TABLE_NAME": f"{table.schema}.{table.table}", **env}) as relay:
        yield relay
