"""Several statements as one transaction, in one round trip.

In psycopg's pipeline they share a synchronisation point, whose implicit COMMIT may fail: a constraint or a trigger
that is deferred, also of a table that the function of a policy writes while rows are read. psycopg (3.3) expects no
error there, and then reports a connection that it cannot use any more, without the reason. So the COMMIT is a statement
of its own, whose error it does report.

Errors are psycopg's; then nothing of the transaction took effect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg.pq import TransactionStatus

from relay.postgres.connect import Connection


@asynccontextmanager
async def one_transaction(connection: Connection) -> AsyncIterator[None]:
    """Send what is executed inside together; it is committed when the block has ended, or with the caller's own."""
    if connection.pgconn.transaction_status != TransactionStatus.IDLE:
        async with connection.pipeline():
            yield
        return
    cause: psycopg.Error | None = None
    try:
        async with connection.pipeline():
            try:
                await connection.execute("BEGIN", prepare=False)
                yield
                await connection.execute("COMMIT", prepare=False)
            except psycopg.Error as error:  # out of its way: the pipeline would log each error that follows from it
                cause = error
    except psycopg.Error as error:
        cause = cause or error
    if cause is not None:
        if connection.pgconn.transaction_status in (TransactionStatus.INERROR, TransactionStatus.INTRANS):
            await connection.rollback()
        raise cause
