"""A real Spark standalone cluster on 127.0.0.1: one master, worker processes; and what a driver needs to find it.

The jars come with the wheel ``pyspark``; Java 17 must be there. The settings of all JVMs stand here: little
memory, and what ``spark_classes`` says.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from relay.localservers.process import accepts, free_port
from relay.localservers.server import LocalServer
from tests.support.paths import ROOT
from tests.support.servers.java_classes import LEAN
from tests.support.servers.spark_classes import java_options
from tests.support.servers.spark_home import spark_home

_LOG4J = Path(__file__).with_name("spark-log4j2.xml")


def environment() -> dict[str, str]:
    """What drivers and executors run with: this Python, this checkout, few log lines."""
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": LEAN,
        "SPARK_SUBMIT_OPTS": f"-Dlog4j2.configurationFile={_LOG4J}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": python_path(),
    }


def python_path() -> str:
    """Where this checkout's modules are."""
    return os.pathsep.join([str(ROOT), str(ROOT / "cli"), str(ROOT / "client")])


SESSION: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.locality.wait": "0",
    "spark.python.authenticate.socketTimeout": "300s",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": python_path(),
}
"""Settings of every test session. On a cluster: an executor of one core on each worker.

Without generated code: compiling it takes longer than reading a few thousand rows.
"""

SCALE_SESSION: Mapping[str, str] = {
    **SESSION,
    "spark.driver.memory": "1g",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""For large amounts: the memory, the compiler and the generated code that Spark has by default."""


def lean_session() -> dict[str, str]:
    """``SESSION`` with the options of small JVMs that start quickly."""
    return {f"spark.{process}.extraJavaOptions": java_options() for process in ("driver", "executor")} | dict(SESSION)


def submit_arguments() -> list[str]:
    """``lean_session`` as arguments of spark-submit."""
    return [word for name, value in lean_session().items() for word in ("--conf", f"{name}={value}")]


def kafka_source() -> str:
    """Spark's Kafka source, for ``spark.jars``; fetched by Maven on the first call in a checkout."""
    return _jars("spark-kafka")


TABLE_FORMATS = ("delta", "iceberg") if pyspark.__version__.startswith("4.1.") else ()
"""Formats of tables with a release that works with this Spark: none yet for newer ones."""


def table_settings(warehouse: str) -> dict[str, str]:
    """Settings of a session with ``TABLE_FORMATS`` (fetched by Maven), and a catalog ``lake`` of Iceberg."""
    if not TABLE_FORMATS:
        return {}
    return {
        "spark.jars": f"{kafka_source()},{_jars('spark-tables')}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": warehouse,
    }


def _jars(name: str) -> str:
    from tests.support.servers.kafka import fetched  # noqa: PLC0415 - a driver has no client of Kafka

    return ",".join(str(jar) for jar in sorted(fetched(name, f"{name}-pom.xml").glob("*.jar")))


class _SparkServer(LocalServer):
    ready_within = 120.0

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__()
        self.host = host
        self.port = 0
        self.web_port = 0

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def _prepare(self) -> None:
        self.port, self.web_port = free_port(), free_port()

    def _environment(self) -> Mapping[str, str]:
        return {**environment(), "SPARK_LOCAL_IP": self.host, "SPARK_SCALA_VERSION": "2.13"}

    def _started(self, role: str, *more: str | Path) -> list[str | Path]:
        # As bin/spark-class does in the end, which would start another JVM first to find these words.
        class_path = f"{spark_home()}/conf:{spark_home()}/jars/*"  # as Spark builds it; conf need not exist
        java = ["java", *LEAN.split(), "-Xmx256m", f"-Dlog4j2.configurationFile={_LOG4J}", "-cp", class_path]
        places = ["--host", self.host, "--port", str(self.port), "--webui-port", str(self.web_port)]
        return [*java, f"org.apache.spark.deploy.{role.lower()}.{role}", *places, *more]


class SparkMaster(_SparkServer):
    """The master; ``workers`` says which are there."""

    name = "Spark-master"

    def _command(self) -> list[str | Path]:
        return self._started("Master")

    def _answers(self) -> bool:
        return accepts(self.port)

    def workers(self) -> set[str]:
        """The hosts of the workers that live; none while the master does not answer."""
        address = f"http://127.0.0.1:{self.web_port}/json/"
        # ValueError: for a moment after its start it answers with a page that is not JSON.
        with suppress(OSError, ValueError), urllib.request.urlopen(address, timeout=5) as answer:
            return {worker["host"] for worker in json.load(answer)["workers"] if worker["state"] == "ALIVE"}
        return set()


class SparkWorker(_SparkServer):
    """One worker process, for executors of ``cores`` in all.

    Each has an address of its own, 127.0.0.2 and so on: Spark makes no second attempt at a task on the same host.
    """

    name = "Spark-worker"

    def __init__(self, master: SparkMaster, number: int, cores: int) -> None:
        super().__init__(f"127.0.0.{2 + number}")
        self._master = master
        self._cores = cores

    def _command(self) -> list[str | Path]:
        sizes: list[str | Path] = ["--cores", str(self._cores), "--memory", "2g", "--work-dir", self.folder / "work"]
        return self._started("Worker", *sizes, self._master.url)

    def _answers(self) -> bool:
        return self.host in self._master.workers()


@dataclass(frozen=True)
class SparkConnect:
    """The Spark Connect server in the JVM of a session, whose event log has what the server does.

    One JVM serves both: a second one would be as cold as the first was, and load the same classes.
    """

    port: int
    event_log: Path
    """The folder of the event log."""

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"sc://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, str]:
        """Settings of the session that starts it."""
        return {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file:{self.event_log}",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        }


class SparkCluster:
    """One master and two workers."""

    def __init__(self, cores: int = 4) -> None:
        self.master = SparkMaster()
        self.workers = [SparkWorker(self.master, number, cores) for number in range(2)]

    @property
    def url(self) -> str:
        """What a driver takes as its master."""
        return self.master.url

    def __enter__(self) -> SparkCluster:
        try:
            self.master.start()
            with ThreadPoolExecutor() as pool:
                list(pool.map(SparkWorker.start, self.workers))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all of it."""
        for server in (*self.workers, self.master):
            server.close()
