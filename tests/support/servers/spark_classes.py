"""Spark's classes, loaded and verified once for a checkout: the JVMs of the tests map them instead of reading the jars.

Java 17 can write the classes of a process into an archive when the process ends (application class data sharing), and
map the archive in later processes. With it a driver uses 5 instead of 10 CPU seconds until its first job has run, and
an executor 2.6 instead of 4.4 (on two shared cores); masters and workers gain nothing. An archive that does not fit the
version of Java, the garbage collector or the jars is ignored: Java then loads the classes from the jars.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from relay.localservers.process import run_tool
from tests.support.paths import CACHE, ROOT
from tests.support.servers.spark_home import spark_home

LEAN = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""The options of every JVM: a small garbage collector, and a compiler that is quick rather than good."""

_PREFIX = "spark-classes-"
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # an archive that does not fit is a warning on standard output
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@functools.cache
def java_options() -> str:
    """``LEAN``, and the archive; the first call in a checkout writes it, which takes as long as starting a few JVMs."""
    java = shutil.which("java")
    if java is None:
        return LEAN
    files = [Path(java).resolve(), *sorted((spark_home() / "jars").iterdir())]
    content = "\n".join(f"{file} {file.stat().st_mtime_ns}" for file in files)
    archive = CACHE / f"{_PREFIX}{hashlib.sha256(content.encode()).hexdigest()[:16]}.jsa"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "spark-classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _write(archive)
    return f"{LEAN} -XX:SharedArchiveFile={archive} {_SILENT}"


def _write(archive: Path) -> None:
    for outdated in CACHE.glob(f"{_PREFIX}*.jsa"):
        outdated.unlink()
    unfinished = archive.with_suffix(".unfinished")
    with tempfile.TemporaryDirectory(prefix="openoutbox-spark-classes-") as folder:
        paths = {"PYTHONPATH": str(ROOT), "SPARK_HOME": str(spark_home())}
        paths |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        run_tool([sys.executable, "-m", __name__, unfinished, folder], Path(folder), env=os.environ | paths)
    if unfinished.exists():
        unfinished.rename(archive)
    else:
        archive.touch()  # a Java that cannot write one, and ignores this one


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
