"""Statements over Django's connections to PostgreSQL.

Imported only when a connection of Django is handed in. Statements go through Django's own cursor, so that its query
log, its wrappers and its check for a broken transaction see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import LiteralString, cast

from django.db import Error, InterfaceError, OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy

from openoutbox.failure import StatementFailure
from openoutbox.ports import Row, Values
from openoutbox.targets import DjangoConnection


class DjangoChannel:
    """A ``SyncChannel`` over ``django.db.connection`` or one of ``django.db.connections``."""

    def __init__(self, target: DjangoConnection) -> None:
        self._connection = target

    def send(self, statement: LiteralString, values: Values) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)
            return int(cursor.rowcount)

    def fetch(self, statement: LiteralString, values: Values) -> Sequence[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)
            return [tuple(row) for row in cursor.fetchall()]

    def savepoint(self) -> AbstractContextManager[object]:
        """See ``SyncChannel``. It is Django's own ``atomic``, which ``on_commit`` and nested blocks rely on."""
        block: AbstractContextManager[object] = transaction.atomic(using=self._connection.alias)
        return block

    def commits_at_once(self) -> bool:
        return self._connection.get_autocommit() and not self._connection.in_atomic_block

    def transaction(self) -> AbstractContextManager[object]:
        """See ``SyncCaller``. Within a test of Django's TestCase it is a savepoint."""
        block: AbstractContextManager[object] = transaction.atomic(using=self._connection.alias, durable=True)
        return block

    def flush(self) -> None: ...


def django_channel(target: object) -> DjangoChannel | None:
    """The channel of a connection of Django to PostgreSQL; None for any other object."""
    known = isinstance(target, BaseDatabaseWrapper | ConnectionProxy)
    return (
        DjangoChannel(cast("DjangoConnection", target))
        if known and getattr(target, "vendor", None) == "postgresql"
        else None
    )


def failure_of(error: BaseException) -> StatementFailure | None:
    """See ``openoutbox.channel.failure_of``. Django's errors have the driver's as their cause."""
    if not isinstance(error, Error) or error.__cause__ is None:
        return None
    original = error.__cause__
    sqlstate = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    fields = getattr(original, "diag", None)
    return StatementFailure(
        sqlstate,
        getattr(fields, "message_primary", None) or str(original) or type(original).__name__,
        getattr(fields, "table_name", None),
        getattr(fields, "constraint_name", None),
        sqlstate is None and isinstance(error, OperationalError | InterfaceError),
    )
