"""What the processor time of a drain consists of, for ``benchmarks.drain --parts``.

Threads of the relay and processes of PostgreSQL by their schedstat, which counts nanoseconds; statements by
pg_stat_statements, whose times are elapsed ones, the disk's included. A process that began meanwhile counts in full,
and one that ended meanwhile as one of those that ended.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.measured import Cell
from benchmarks.process import children, ended_seconds, thread_seconds
from benchmarks.servers import Servers

SETTINGS: Final = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track_planning": "on",
}
"""PostgreSQL's, for the statements; both the floor's and the relay's cost a little more with them."""
_EXTENSION = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"
_RESET = "SELECT pg_stat_statements_reset()"
_BACKENDS = "SELECT pid, backend_type, application_name, query FROM pg_stat_activity"
_STATEMENTS = """
SELECT query, calls, total_plan_time, total_exec_time
FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
WHERE datname = %s
"""
_KINDS: Final = (
    ("chosen", "claim"),
    ("'floor'", "claim and settle"),  # one backend does both; pg_stat_statements shows no such constant
    ("locked_at = NOW()", "claim"),
    ("LIMIT (SELECT", "claim"),  # a look, after an empty one, at the row that it would have taken
    ("delivered_at = NOW()", "settle"),
    ("DELETE FROM", "settle"),
    ("COMMIT", "settle"),
)
"""What a statement is for, by the first of these texts that it contains."""


class Parts:
    """From its making on: one relay, or the floor, on one database."""

    def __init__(self, servers: Servers, url: str, relay: int | None = None) -> None:
        """``relay`` is the relay's process id; the floor has none."""
        self._servers = servers
        self._database = url.rpartition("/")[2]
        self._relay = relay
        with psycopg.connect(servers.postgres.url, autocommit=True) as connection:
            connection.execute(_EXTENSION)
            connection.execute(_RESET)
        self._threads, self._processes = _threads(relay), _processes(servers)
        self._ended = ended_seconds(servers.postgres.pid)

    def per_event(self, count: int) -> dict[str, float]:
        """By part, microseconds an event; of statements also their number for a million events."""
        parts: Counter[str] = Counter()
        for thread, (name, seconds) in _threads(self._relay).items():
            part = "event loop" if thread == str(self._relay) else name
            parts[f"relay: {part}"] += seconds - self._threads.get(thread, (name, 0.0))[1]
        processes = _processes(self._servers)
        ended = ended_seconds(self._servers.postgres.pid) - self._ended
        ended -= sum(seconds for pid, seconds in self._processes.items() if pid not in processes)
        with psycopg.connect(self._servers.postgres.url, autocommit=True) as connection:
            names = {pid: _role(*rest) for pid, *rest in connection.execute(_BACKENDS)}
            for pid, seconds in processes.items():
                parts[f"PostgreSQL: {names.get(pid, 'others')}"] += seconds - self._processes.get(pid, 0.0)
            parts["PostgreSQL: ended processes"] += ended
            for query, calls, planning, running in connection.execute(_STATEMENTS, [self._database]):
                kind = _kind(query)
                parts[f"statements: {kind}, planning"] += planning / 1000
                parts[f"statements: {kind}, running"] += running / 1000
                parts[f"statements: {kind}, number"] += calls
        return {name: value / count * 1e6 for name, value in parts.items()}


def _threads(pid: int | None) -> dict[str, tuple[str, float]]:
    """The name and CPU seconds of each thread of a process, by its id."""
    threads: dict[str, tuple[str, float]] = {}
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            threads[folder.name] = (folder / "comm").read_text(encoding="utf-8").strip(), thread_seconds(folder)
    return threads


def _processes(servers: Servers) -> dict[int, float]:
    """The CPU seconds of PostgreSQL's processes, by id."""
    processes: dict[int, float] = {}
    for pid in (servers.postgres.pid, *children(servers.postgres.pid)):
        with suppress(OSError):
            processes[pid] = thread_seconds(Path(f"/proc/{pid}"))
    return processes


def _role(backend_type: str, application: str, query: str) -> str:
    if backend_type != "client backend":
        return backend_type
    kind = _kind(query)
    return kind if application or kind == "claim and settle" else "this program"


def _kind(query: str) -> str:
    return next((kind for text, kind in _KINDS if text in query), "others")


def parts_table(cells: Sequence[Cell]) -> str:
    """Markdown: medians, a column for each contender."""
    return "\n".join(line for batch in sorted({cell.batch for cell in cells}) for line in _of_batch(batch, cells))


def _of_batch(batch: int, cells: Sequence[Cell]) -> Iterator[str]:
    contenders: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.batch == batch and cell.parts:
            contenders.setdefault(f"{cell.publisher} {cell.relay}".strip(), []).append(cell)
    yield f"\n| us an event at {batch} | {' | '.join(contenders)} |"
    yield f"|---|{'---|' * len(contenders)}"
    for name in sorted({name for cell in cells if cell.batch == batch for name in cell.parts}):
        medians = (
            statistics.median(cell.parts.get(name, 0.0) for cell in of_contender)
            for of_contender in contenders.values()
        )
        yield f"| {name} | {' | '.join(f'{median:.2f}' for median in medians)} |"
