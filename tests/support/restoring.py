"""A copy of a test's database, and the restore of it: what went on since is gone, and positions are assigned again."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.support.fixtures.postgres import Database, create_database, drop_database

END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"


def back_up(database: Database) -> Database:
    """A copy as of now. Ends all connections; a pooler's clients do not notice."""
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        admin.execute(allow.format(sql.Identifier(database.name), sql.SQL("false")))
        try:
            while admin.execute(END, (database.name,)).fetchall():
                pass
            return create_database(database.admin_url, database.name)
        finally:
            admin.execute(allow.format(sql.Identifier(database.name), sql.SQL("true")))


def restore(database: Database, backup: Database) -> None:
    """Let the copy take the place of the database. Ends all connections to it."""
    drop_database(database)
    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        admin.execute(rename.format(sql.Identifier(backup.name), sql.Identifier(database.name)))


def pooled(database: Database, pgbouncer: str) -> str:
    """The database's URL through a pooler."""
    return urlsplit(database.url)._replace(netloc=urlsplit(pgbouncer).netloc).geturl()
