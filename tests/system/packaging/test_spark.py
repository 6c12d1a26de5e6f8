"""The oldest Spark, with what docs/guide/spark.md installs on driver and executors of a cluster, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.fixtures.outbox import Outbox
from tests.support.paths import CACHE, ROOT
from tests.system.packaging.test_client import UV, run

pytestmark = [pytest.mark.packages, pytest.mark.timeout(900)]

PROGRAM = """
import sys
from importlib.metadata import distributions
from pathlib import Path
from pyspark.sql import SparkSession

url, folder = sys.argv[1:]
others = {"pydantic", "structlog", "typer", "rich", "uvloop", "starlette", "prometheus-client"}
assert not others & {each.metadata["Name"] for each in distributions()}
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

def write(frame, **options):
    events = frame.selectExpr("'t' AS event_type", "struct(id) AS payload", "id")
    return events, dict(options, url=url, idColumns="id")

for commit, start in (("atomic", 0), ("atomic", 0), ("partition", 5000)):
    events, options = write(session.range(start, start + 5000, 1, 3), commit=commit)
    events.write.format("openoutbox").mode("append").options(**options).save()
session.range(20000, 20010).write.json(f"{folder}/input")
events, options = write(session.readStream.schema("id long").json(f"{folder}/input"))
stream = events.writeStream.format("openoutbox").options(**options)
for _ in range(2):
    stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.start().awaitTermination()
rows = session.read.format("openoutbox").option("url", url).option("columns", "event_id,payload").load()
print("rows:", rows.count(), rows.select("event_id").distinct().count())
"""


@pytest.mark.spark
def test_the_oldest_spark_writes_streams_and_reads_with_psycopg_alone(outbox: Outbox, tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    ((version,),) = [re.findall(r"^OLDEST_SPARK := (.*)$", makefile, re.MULTILINE)]
    home = CACHE / f"cluster-{version}"  # PySpark takes 450 MB: it is installed once for a checkout
    python = home / "bin/python"
    install = (UV, "pip", "install", "--quiet", "--python", python)
    if not python.exists():
        run(UV, "venv", "--quiet", home, cwd=ROOT)
    run(*install, f"pyspark[sql]=={version}", "pandas<3", "psycopg[binary]", cwd=ROOT, seconds=300)
    run(*install, "--no-deps", "--reinstall", ROOT / "client", ROOT, cwd=ROOT)
    shown = run(python, "-W", "ignore", "-c", PROGRAM, outbox.url, str(tmp_path), cwd=home, seconds=300)
    assert "rows: 10010 10010" in shown
