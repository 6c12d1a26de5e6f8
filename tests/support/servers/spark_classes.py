"""Spark's classes, loaded and verified once for a checkout (``tests.support.servers.java_classes``).

With them a driver uses 5 instead of 10 CPU seconds until its first job has run, and an executor 2.6 instead of 4.4 (on
two shared cores); masters and workers gain nothing.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from pathlib import Path

from relay.localservers.process import run_tool
from tests.support.paths import ROOT
from tests.support.servers.java_classes import LEAN, with_classes
from tests.support.servers.spark_home import spark_home

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@functools.cache
def java_options() -> str:
    """``LEAN``, and the archive; the first call in a checkout writes it, which takes as long as starting a few JVMs."""
    return with_classes("spark", sorted((spark_home() / "jars").iterdir()), _write)


def _write(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="openoutbox-spark-classes-") as folder:
        paths = {"PYTHONPATH": str(ROOT), "SPARK_HOME": str(spark_home())}
        paths |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        run_tool([sys.executable, "-m", __name__, archive, folder], Path(folder), env=os.environ | paths)


def _identity(batches: object) -> object:
    return batches


def main(archive: str, folder: str) -> None:
    """Run one small job of each kind that the tests run, and end; Java then writes the archive."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only the process that writes the archive needs it

    builder = SparkSession.Builder().master("local[2]").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.driver.memory", "512m").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", f"{LEAN} -XX:ArchiveClassesAtExit={archive}")
    session = builder.getOrCreate()
    numbers = session.range(100).selectExpr("id", "id % 3 AS part", "struct(id) AS body", "now() AS at")
    numbers.write.partitionBy("part").parquet(f"{folder}/parquet")
    numbers.select("id").write.json(f"{folder}/json")
    rows = session.read.parquet(f"{folder}/parquet")
    counts = rows.join(numbers.select("id"), "id").groupBy("part").count()
    counts.mapInArrow(_identity, counts.schema).collect()  # type: ignore[arg-type]
    stream = session.readStream.schema("id long").json(f"{folder}/json").writeStream.format("noop")
    query = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    java = session.sparkContext._jvm
    assert java is not None
    java.java.lang.Class.forName(_EXECUTOR)  # a local session has no executors
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
