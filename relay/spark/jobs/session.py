"""The session of a job: the process's own, a new one, or one on a server of Spark Connect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.utils import is_remote

from relay.core.errors import ConfigError, OutboxError
from relay.core.extras import install_advice

_CONNECT_TIMEOUT: Final = 20.0
"""Seconds for which a Spark Connect server that does not answer is waited for; PySpark alone tries for ten minutes."""
_SECRETS: Final = ("spark.sql.redaction.string.regex", r'postgres(ql)?://[^\s"]+|value: "(\\.|[^"\\])*"')
"""A Spark Connect server shows requests, with all options of sources, in its pages and its event log."""

Stages = list[tuple[int, int, int]]
"""Number, tasks that are done, and tasks of each active stage."""

_watched: WeakKeyDictionary[SparkSession, dict[str, Stages]] = WeakKeyDictionary()
"""The active stages of each operation of a Connect session, which reports them while it waits for the operation."""


class ConnectError(OutboxError):
    """The Spark Connect server does not answer."""


def is_connect(session: SparkSession) -> bool:
    """Whether the session is one of Spark Connect, without a JVM in this process."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def open_session(
    name: str,
    source: type[DataSource],
    remote: str | None = None,
    packages: str | None = None,
    jars: str | None = None,
) -> SparkSession:
    """The process's session, or a new one with ``--packages`` and ``--jars``; it knows ``source`` and pushes filters.

    ``remote`` is the URL of a Spark Connect server. Raises ConfigError for one that is invalid, or comes with packages
    or jars; ConnectError for a server that does not answer.
    """
    if remote is not None:
        _check_server(remote)
    session = _connected() or _new_session(name, remote, {"spark.jars.packages": packages, "spark.jars": jars})
    if is_connect(session):
        if packages or jars:
            raise ConfigError(
                "--packages, --jars: not with Spark Connect; give them to start-connect-server.sh, which starts the "
                "server"
            )
        _prepare(session)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.dataSource.register(source)
    return session


def active_stages(session: SparkSession) -> Stages:
    """The active stages of the session."""
    if is_connect(session):
        return [stage for stages in list(_watched.get(session, {}).values()) for stage in stages]
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return [(stage.stageId, stage.numCompletedTasks, stage.numTasks) for stage in stages if stage]


def _connected() -> SparkSession | None:
    """The process's session on a Spark Connect server, which PySpark's builder finds by the server's URL only."""
    if not is_remote():
        return None
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _new_session(name: str, remote: str | None, settings: Mapping[str, str | None]) -> SparkSession:
    builder = SparkSession.Builder().appName(f"openoutbox-{name}")
    if remote is not None:
        builder = builder.remote(remote)
    for setting, value in settings.items():
        builder = builder.config(setting, value) if value else builder
    return builder.getOrCreate()


def _prepare(session: SparkSession) -> None:
    name, pattern = _SECRETS
    if not session.conf.get(name, ""):
        session.conf.set(name, pattern)
    if session not in _watched:
        stages = _watched[session] = {}
        session.registerProgressHandler(_watch(stages))


def _watch(active: dict[str, Stages]) -> Any:  # noqa: ANN401 - a protocol of PySpark's, which needs gRPC
    """A handler that keeps the active stages of each operation."""

    def handle(stages: Iterable[Any] | None, *, operation_id: str | None, done: bool, **_: object) -> None:
        numbers = [(each.stage_id, each.num_completed_tasks, each.num_tasks) for each in stages or () if not each.done]
        if done:
            active.pop(str(operation_id), None)
        else:
            active[str(operation_id)] = numbers

    return handle


def _check_server(remote: str) -> None:
    """Wait until the server accepts connections. Raises ConfigError and ConnectError, which show no token."""
    try:
        import grpc  # noqa: PLC0415 - only Spark Connect needs it
        from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
    except (ImportError, PySparkException) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"--remote: {reason}. {install_advice('spark-connect')}") from None
    shown = re.sub(r"/?;.*", "", remote)
    try:
        builder = DefaultChannelBuilder(remote)
    except (PySparkException, ValueError):
        raise ConfigError(f"--remote: {shown}: invalid; the form is sc://HOST:PORT/;NAME=VALUE;…") from None
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_CONNECT_TIMEOUT)
        except grpc.FutureTimeoutError:
            raise ConnectError(
                f"{shown}: no Spark Connect server accepts connections ({_CONNECT_TIMEOUT:.0f} s); check the address, "
                "and use_ssl if the server needs TLS"
            ) from None
