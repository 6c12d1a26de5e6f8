"""A streaming standby of a ``PostgresServer``, to be promoted when its primary is gone."""

from __future__ import annotations

import psycopg

from relay.localservers.postgres import PostgresServer
from relay.localservers.process import free_port, run_tool
from tests.support.psql import NEWEST_TOOLS
from tests.support.waiting import wait_until


class StandbyServer(PostgresServer):
    """A copy of ``primary``, which must run, and follows it."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary

    def _prepare(self) -> None:
        if not (self.folder / "data").exists():
            source = ["-h", "127.0.0.1", "-p", str(self._primary.port), "-U", "postgres"]
            options = ["-R", "-X", "stream", "-c", "fast", "--no-sync"]
            own = self.bin / "pg_basebackup"  # programs that TEST_POSTGRES_BIN names may lack it
            tool = own if own.exists() else NEWEST_TOOLS / own.name
            run_tool([tool, *source, "-D", self.folder / "data", *options], self.folder, self._account)
            # What a newer tool writes there, an older server does not know.
            primary = f"host=127.0.0.1 port={self._primary.port} user=postgres"
            with (self.folder / "data" / "postgresql.auto.conf").open("a", encoding="utf-8") as conf:
                conf.write(f"primary_conninfo = '{primary}'\n")
        self.port = free_port()

    def follow_synchronously(self) -> None:
        """From now on the primary confirms a commit only when it is here too."""
        with psycopg.connect(self._primary.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_until(lambda: connection.execute(state).fetchone() == (1,), what="the standby to be synchronous")

    def promote(self) -> None:
        """Make it a primary that waits for no standby."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")
