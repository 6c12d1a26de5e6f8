"""A gate in the database: tasks of a job stop in the middle of their work, and the database knows their executor."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.spark.driver import PATIENCE
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until

_GATE = """
CREATE OR REPLACE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4711);
    RETURN COALESCE(NEW, OLD);
END
$$
"""
_STOPPED = """
SELECT client_port FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'openoutbox-spark' AND wait_event = 'advisory'
"""

CONNECTED = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'openoutbox-spark'
"""


@contextmanager
def stopped_at(outbox: Outbox, what: str, *, passing: int = 5) -> Iterator[None]:
    """Every ``what`` (INSERT, DELETE) waits while the block runs, but those of the first rows."""
    outbox.database.run(_GATE)
    outbox.database.run("CREATE SEQUENCE passed")
    outbox.database.run(
        f"CREATE TRIGGER gate BEFORE {what} ON openoutbox_events FOR EACH ROW"
        f" WHEN (nextval('passed') > {passing}) EXECUTE FUNCTION stop_here()"
    )
    with psycopg.connect(outbox.url, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(4711)")
        yield
    outbox.database.run("DROP TRIGGER gate ON openoutbox_events")
    outbox.database.run("DROP SEQUENCE passed")


def stopped_task(outbox: Outbox) -> int:
    """Wait for a task that has come to the gate; the port of its connection."""
    return int(wait_until(lambda: outbox.database.run(_STOPPED), PATIENCE, "a task that waits")[0][0])


def wait_disconnected(outbox: Outbox) -> None:
    """Wait until the server has noticed that all of Spark's connections are gone."""
    wait_until(lambda: not outbox.database.run(CONNECTED), PATIENCE, "the server to notice that the driver is gone")


def kill_an_executor_at_work(outbox: Outbox) -> None:
    """Kill the JVM of an executor one of whose tasks waits in the database."""
    os.kill(_executor_of(_owner(stopped_task(outbox), urlsplit(outbox.url).port or 0)), signal.SIGKILL)


def _owner(port: int, server: int) -> int:
    """The process that has a connection from this port to the server's: others may have the same one to elsewhere."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    (inode,) = [row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[2].endswith(f":{server:04X}")]
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(entry.readlink()) == f"socket:[{inode}]":
                return int(entry.parts[2])
        except OSError:
            continue
    raise AssertionError(f"no process has port {port}")


def _executor_of(pid: int) -> int:
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        pid = int(stat.rpartition(")")[2].split()[1])
        assert pid > 1, "not a process of an executor"
    return pid
