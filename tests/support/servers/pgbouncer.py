"""A real PgBouncer in transaction mode, with a pool of two connections for each user and database.

Version 1.18, where Debian 12 brings it from, knows no prepared statements in transaction mode (1.21 does), so it shows
that none is used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from relay.localservers.process import free_port, unprivileged
from relay.localservers.server import LocalServer
from tests.support.servers.debian import program

POOL = 2
_PATH = "usr/sbin/pgbouncer"
_PACKAGES = ("pgbouncer", "libc-ares2", "libevent-2.1-7")


class PgBouncer(LocalServer):
    """In front of one PostgreSQL that trusts every client."""

    name = "PgBouncer"
    ready_within = 30.0

    def __init__(self, server_url: str, users: Sequence[str] = ()) -> None:
        """``users`` may come in, beside the one that ``server_url`` names."""
        super().__init__(unprivileged())
        self._server = urlsplit(server_url)
        self._users = [*users, self._server.username]
        self.port = 0

    @property
    def url(self) -> str:
        """As the server's, by way of the pool."""
        return self._server._replace(netloc=f"{self._server.username}@127.0.0.1:{self.port}").geturl()

    def _prepare(self) -> None:
        self.port = free_port()
        users = "".join(f'"{user}" ""\n' for user in self._users)
        (self.folder / "users").write_text(users, encoding="utf-8")
        lines = [
            "[databases]",
            f"* = host={self._server.hostname} port={self._server.port}",
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            f"listen_port = {self.port}",
            "unix_socket_dir =",
            "auth_type = trust",
            f"auth_file = {self.folder}/users",
            "pool_mode = transaction",
            f"default_pool_size = {POOL}",
            "server_idle_timeout = 5",  # seconds, as the next; by default it refuses for 15 after one failed login
            "server_login_retry = 1",
            "max_client_conn = 500",
        ]
        (self.folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _command(self) -> list[str | Path]:
        path = program(_PATH, _PACKAGES)
        copy = self.folder / "install"  # where the account it runs as can read it
        if not copy.exists():
            if path.is_relative_to("/usr"):
                return [path, self.folder / "pgbouncer.ini"]
            shutil.copytree(path.parents[2], copy, symlinks=True)
        return [copy / _PATH, self.folder / "pgbouncer.ini"]

    def _environment(self) -> Mapping[str, str]:
        libraries = [str(path) for path in (self.folder / "install/usr/lib").glob("*-linux-gnu*")]
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=2, prepare_threshold=None) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True
