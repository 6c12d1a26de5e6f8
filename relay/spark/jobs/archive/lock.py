"""The lock that lets one run archive an outbox at a time: an advisory lock of an open transaction on the driver.

It ends with its connection. A run whose database was restarted takes it again, and goes on if no other run had it
meanwhile: ``relay.spark.jobs.archive.steps`` checks that in the archive.
"""

from __future__ import annotations

import psycopg

from relay.core.errors import StorageBusy
from relay.postgres.connect import SyncConnection, close_and_wait
from relay.postgres.errors import is_passing, translating
from relay.postgres.sql import statement
from relay.spark.connection import DEFAULT_MAX_WAIT, Wait, connect, own_settings, persist
from relay.spark.jobs.outbox import Outbox, identify
from relay.spark.statements import SparkStatements


class ArchiveLock:
    """The lock of one outbox's archiving; close it at the end of the run."""

    def __init__(self, url: str, statements: SparkStatements) -> None:
        """Take the lock. Raises StorageBusy while another run has it, and SchemaError for a missing table."""
        self._url = url
        self.statements = statements
        self._connection: SyncConnection | None = None
        with translating("locking this outbox's archiving"):
            self.outbox: Outbox = persist(self._take, DEFAULT_MAX_WAIT)

    def still_held(self) -> bool:
        """Whether the lock was held without a gap; False when it was lost, and is held again.

        Waits for a database that restarts. Raises StorageBusy when another run has taken the lock.
        """
        with translating("checking that the lock of this archive run is held"):
            try:
                if self._connection is not None:
                    self._connection.execute(statement("session:ping"))
                    return True
            except psycopg.Error as error:
                if not is_passing(error):
                    raise
            persist(self._take, DEFAULT_MAX_WAIT)
        return False

    def close(self) -> None:
        """Release the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            close_and_wait(connection)

    def _take(self, wait: Wait) -> Outbox:
        self.close()
        self._connection = connect(self._url, writes=True, wait=wait)
        try:
            return self._lock(self._connection)
        except BaseException:
            self.close()
            raise

    def _lock(self, connection: SyncConnection) -> Outbox:
        connection.autocommit = False  # the first statement begins the transaction that holds the lock
        own_settings(connection)
        outbox = identify(connection, self.statements)
        name = {"outbox": self.statements.outbox.quoted}
        ((free,),) = connection.execute(self.statements.query("archive:lock_archive"), name).fetchall()
        if not free:
            raise StorageBusy(f"{self.statements.outbox}: is being archived by another run; wait for it, or stop it")
        return outbox
