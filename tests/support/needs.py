"""What a test needs, as markers: derived from the fixtures and modules that it uses, and held at run time.

``make check`` runs what carries no ``server`` marker. A test that starts a program without the marker of its need
fails at that moment, wherever it runs, so that it cannot slip into ``make check`` and be slow or break there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.servers.rabbitmq import missing
from tests.support.waiting import PATIENCE

SERVERS: Final = (
    "postgres",
    "kafka",
    "nats",
    "redis",
    "rabbitmq",
    "http",
    "aws",
    "clickhouse",
    "spark",
    "prometheus",
    "packages",
)
"""Markers of what a run must start or fetch; each brings the marker ``server``."""

_FIXTURES: Final = {
    "postgres": {"postgres", "newest_postgres", "own_postgres", "pgbouncer"},
    "kafka": {"kafka", "kafka_proxy", "granting_kafka", "pacing_kafka"},
    "nats": {"nats_url", "own_nats"},
    "redis": {"redis_url", "own_redis"},
    "rabbitmq": {"rabbitmq_url", "breakable_rabbitmq"},
    "http": {"http_url", "webhooks", "own_webhooks"},
    "aws": {"aws_url", "own_aws"},
    "clickhouse": {"chdb_folder"},
    "spark": {"spark", "spark_cluster", "spark_connect"},
}
_GROUPS: Final = {"spark": "spark", "chaos-kafka": "kafka", "clickhouse": "clickhouse"}
"""What the members of an xdist group share."""

_PROGRAMS: Final = {
    "postgres": ("initdb", "postgres", "pgbouncer", "pg_basebackup"),
    "nats": ("nats-server",),
    "redis": ("valkey-server", "redis-server"),
    "rabbitmq": ("rabbitmqctl", "erl_call"),
    "spark": ("spark-submit", "spark-class"),
    "prometheus": ("promtool", "prometheus"),
    "packages": ("uv", "pip"),
}
_PROCESS_STARTERS: Final = {
    "tests.support.daemon.Daemon",
    "tests.support.console.ConsoleProcess",
    "tests.support.documents.run_python",
    "tests.support.documents.run_shell",
    "tests.support.documents.shell",
    "tests.support.psql.psql",
    "tests.cli.running.run_cli",
    "tests.examples.running.finished",
    "tests.examples.running.running",
}
"""A module that imports one of these, or ``subprocess``, has tests that start processes."""

_NEEDS = pytest.StashKey[frozenset[str]]()
_running: pytest.Item | None = None
_popen = subprocess.Popen.__init__


class UnmarkedNeed(AssertionError):
    """A test started a program that its markers do not name."""


def pytest_configure(config: pytest.Config) -> None:
    """Watch what is started in this process."""
    subprocess.Popen.__init__ = _checked_popen  # type: ignore[method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop watching."""
    subprocess.Popen.__init__ = _popen  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the markers before ``-m`` selects, and scale pytest's own timeout."""
    timeout = float(config.getini("timeout"))
    absent = missing()
    for item in items:
        for need in _derived(item):
            item.add_marker(need)
        if item.get_closest_marker("spark"):
            item.add_marker("postgres")  # what Spark reads and writes
        own = {mark.name for mark in item.iter_markers()}
        if own & set(SERVERS):
            item.add_marker("server")
        if "rabbitmq" in own and absent is not None:
            item.add_marker(pytest.mark.skip(reason=absent))
        item.stash[_NEEDS] = frozenset(own)
        mark = item.get_closest_marker("timeout")
        limit = float(mark.args[0]) if mark else timeout
        item.add_marker(pytest.mark.timeout(limit * PATIENCE), append=False)


def _derived(item: pytest.Item) -> Iterator[str]:
    fixtures = set(getattr(item, "fixturenames", ()))
    yield from (need for need, names in _FIXTURES.items() if fixtures & names)
    yield from (_GROUPS[mark.args[0]] for mark in item.iter_markers("xdist_group") if mark.args[0] in _GROUPS)
    if "make_broker" in fixtures and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        yield from (str(value) for value in item.callspec.params.values() if value in SERVERS)
    in_system = item.nodeid.startswith("tests/system/")
    if in_system or "daemon" in fixtures or _starts_processes(getattr(item, "module", None)):
        yield "process"


@cache
def _starts_processes(module: Any) -> bool:
    return any(
        value is subprocess
        or f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}" in _PROCESS_STARTERS
        for value in vars(module).values()
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Know which test runs, and see whether it has loaded the embedded ClickHouse."""
    global _running  # noqa: PLW0603  # one test at a time in a process
    _running = item
    try:
        return (yield)
    finally:
        _running = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The embedded ClickHouse is a library: what loads it is seen afterwards."""
    loaded = "chdb" in sys.modules
    result = yield
    if not loaded and "chdb" in sys.modules:
        _require("clickhouse", "chdb")
    return result


def _checked_popen(self: subprocess.Popen[Any], args: Any, *rest: Any, **options: Any) -> None:
    if _running is not None:
        words = [args] if isinstance(args, str | Path) else list(args)
        _require(_need_of(words), str(words[0]))
    _popen(self, args, *rest, **options)


def _need_of(words: list[Any]) -> str:
    program = Path(str(words[0])).name
    if program == "java":
        if any(str(word).endswith(".java") for word in words):
            return "process"  # an application's own program
        into_kafka = ("kafka.", "io.debezium.")
        return "kafka" if any(str(word).startswith(into_kafka) for word in words) else "spark"
    if program == "sh" and Path(str(words[-1])).name == "rabbitmq-server":
        return "rabbitmq"
    if "tests.support.servers.webhook_receiver" in words:
        return "http"
    if "tests.support.servers.moto" in words:
        return "aws"
    return next((need for need, names in _PROGRAMS.items() if program in names), "process")


def _require(need: str, program: str) -> None:
    assert _running is not None
    needs = _running.stash[_NEEDS]
    tool_of_a_server = need == "process" and needs & set(SERVERS)  # fetches it, or prepares its folder
    if need not in needs and not tool_of_a_server:
        raise UnmarkedNeed(
            f"{_running.nodeid} starts {program} without the marker {need!r}. Ask for a fixture that starts it, or add "
            f"pytest.mark.{need}: make check runs only tests that need no server."
        )
