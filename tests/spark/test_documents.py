"""What docs/spark.md shows works, and so does what deploy/spark has for a cluster of one's own."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from relay.spark import key_id
from relay.spark.archive_arguments import read_archive_arguments
from relay.spark.arguments import read_arguments
from relay.spark.replay_arguments import read_replay_arguments
from tests.spark.test_events import TENANTS, append, make
from tests.support.documents import Block, blocks
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import Database
from tests.support.paths import ROOT
from tests.support.servers.spark import HOME, SparkCluster, environment

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

BLOCKS: dict[str, Block] = {block.key: block for block in blocks("docs/spark.md")}


def test_the_batch(spark: SparkSession, outbox: Outbox) -> None:
    own = {"postgresql://spark_writer@db.example:5432/shop": outbox.url}
    orders = spark.sql("SELECT id AS number, 'Ada' AS customer FROM range(10)")
    exec(BLOCKS["docs/spark.md python 1"].adapted(own).text, {"orders": orders})
    assert outbox.row(str(key_id("", "orders.created", 3)))["payload"] == b'{"number":3,"customer":"Ada"}'
    assert key_id("", "orders.created", 4711) != key_id("other", "orders.created", 4711)


def test_the_stream(spark: SparkSession, outbox: Outbox, tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("\n".join(json.dumps({"payload": str(number)}) for number in range(10)))
    source = spark.readStream.schema("payload string").json(str(tmp_path / "*.json"))
    events = source.selectExpr("'t' AS event_type", "payload")
    text = BLOCKS["docs/spark.md python 2"].adapted({"/data/checkpoint": str(tmp_path / "checkpoint")}).text
    names = {"events": events, "url": outbox.url}
    exec(f"query = {text}", names)
    query = names["query"]
    try:
        query.processAllAvailable()  # type: ignore[attr-defined]
        assert len(outbox.rows("event_id")) == 10
    finally:
        query.stop()  # type: ignore[attr-defined]


def test_reading(spark: SparkSession, outbox: Outbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outbox.insert([Row("orders.created", b"x"), Row("users.created", b"y")])
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now()")
    own = {"postgresql://spark_reader@db.example:5432/shop": outbox.reader_url}
    exec(BLOCKS["docs/spark.md python 3"].adapted(own).text, {"spark": spark})
    assert "orders.created" in (shown := capsys.readouterr().out)
    assert "users.created" not in shown
    text = BLOCKS["docs/spark.md python 4"].adapted({"/data/outbox": str(tmp_path / "outbox")}).text
    exec(text, {"spark": spark, "url": outbox.reader_url})
    assert spark.read.parquet(str(tmp_path / "outbox")).count() == 2


def test_the_stream_of_events(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    asyncio.run(make(database.url, "gapless"))
    asyncio.run(append(database.url, TENANTS[0], 100))
    own = {"/data/events-checkpoint": str(tmp_path / "checkpoint"), "/data/events": str(tmp_path / "events")}
    names: dict[str, object] = {"spark": spark, "url": database.url}
    exec(BLOCKS["docs/spark.md python 5"].adapted(own).text, names)
    query = names["query"]
    assert isinstance(query, StreamingQuery)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert spark.read.parquet(str(tmp_path / "events")).count() == 100


def test_spark_submit_on_a_cluster_and_the_command_line(
    spark_cluster: SparkCluster, spark: SparkSession, outbox: Outbox, tmp_path: Path
) -> None:
    spark.sql("SELECT id AS order_number, 'Ada' AS customer FROM range(100)").write.parquet(str(tmp_path / "orders"))
    (tmp_path / "url").write_text(outbox.url)
    text = (
        BLOCKS["docs/spark.md sh 1"]
        .adapted({"/data/orders": str(tmp_path / "orders"), "/secrets/outbox-url": str(tmp_path / "url")})
        .text
    )
    programs = f"""
set -e
relay-cli() {{ {shlex.quote(sys.executable)} -c 'from relay_cli.main import main; main()' "$@"; }}
export PATH={HOME}/bin:$PATH MASTER={spark_cluster.url}
"""
    done = subprocess.run(
        ["bash", "-c", programs + text],
        cwd=ROOT,
        env=environment() | {"SPARK_CONF_DIR": conf_dir(tmp_path, spark_cluster)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # spark-submit puts its driver's standard error, and so the progress of a slow run, into its standard output
    summary, *shown = [line for line in done.stdout.splitlines() if line and not line.startswith("ingest: stage ")]
    assert summary.startswith("100 rows: 100 new, 0 there already; ")
    assert len(shown) == 10
    assert json.loads(shown[0])["partition_key"] == "Ada"
    assert len(outbox.rows("event_id")) == 100


def conf_dir(folder: Path, cluster: SparkCluster) -> str:
    """Where spark-submit finds its master and how to be small."""
    settings = {"spark.master": cluster.url, "spark.ui.enabled": "false", "spark.executor.memory": "512m"}
    settings |= {
        "spark.driver.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(ROOT), f"{ROOT}/cli"]),
    }
    conf = folder / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return str(conf)


def test_the_lines_for_clusters_are_whole(tmp_path: Path) -> None:
    submit = ROOT / "deploy" / "spark" / "submit.sh"
    stand_in = tmp_path / "spark-submit"
    stand_in.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    stand_in.chmod(0o755)
    for kind in ("standalone", "yarn", "kubernetes"):
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MASTER": "m", "IMAGE": "i"}
        done = subprocess.run(
            [submit, kind, "/data", "--event-type", "t"], env=env, capture_output=True, text=True, check=True
        )
        lines = done.stdout.splitlines()
        (job,) = [place for place, line in enumerate(lines) if line.endswith("ingest.py")]
        given = [word for word in lines[job + 1 :] if word not in ("--url-file", "/secrets/url")]
        assert read_arguments("ingest.py", given).inputs == ("/data",)


ARCHIVING = ["/data/outbox", "--url-file", "url"]
REPLAYING = ["--type", "t", "--url-file", "url"]


@pytest.mark.parametrize("kind", ["standalone", "yarn", "kubernetes"])
@pytest.mark.parametrize(
    ("name", "arguments", "read"),
    [("archive", ARCHIVING, read_archive_arguments), ("replay", REPLAYING, read_replay_arguments)],
)
def test_the_lines_for_clusters_take_any_job(
    tmp_path: Path, kind: str, name: str, arguments: list[str], read: Callable[..., object]
) -> None:
    stand_in = tmp_path / "spark-submit"
    stand_in.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    stand_in.chmod(0o755)
    (tmp_path / "url").write_text("postgresql://there")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MASTER": "m", "IMAGE": "i", "JOB": name}
    submit = ROOT / "deploy" / "spark" / "submit.sh"
    done = subprocess.run([submit, kind, *arguments], env=env, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    (job,) = [place for place, line in enumerate(lines) if line.endswith(f"/{name}.py")]
    assert f"openoutbox-{name}" in lines
    own = {"url": str(tmp_path / "url"), "/secrets/url": str(tmp_path / "url")}
    read(name, [own.get(word, word) for word in lines[job + 1 :]])


@pytest.mark.parametrize(("name", "read"), [("archive", read_archive_arguments), ("replay", read_replay_arguments)])
def test_the_commands_of_a_jobs_page_have_arguments_that_exist(
    tmp_path: Path, name: str, read: Callable[..., object]
) -> None:
    (tmp_path / "url").write_text("postgresql://there")
    (block,) = [each for each in blocks(f"docs/spark-{name}.md") if each.language == "sh"]
    commands = block.text.replace("\\\n", " ").replace("/secrets/outbox-url", str(tmp_path / "url")).splitlines()
    for command in commands:
        program, _, arguments = command.partition(f"{name}.py " if "spark-submit" in command else f"spark {name} ")
        assert program in ("spark-submit deploy/spark/", "relay-cli ")
        read(name, shlex.split(arguments), url="postgresql://there")
    assert len(commands) == 3


@pytest.mark.parametrize("name", ["ingest", "archive"])
def test_the_kubernetes_example_passes_arguments_that_exist(name: str, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "spark" / "kubernetes.yaml").read_text(encoding="utf-8")))
    pods = [each["spec"]["jobTemplate"]["spec"]["template"]["spec"] for each in documents if each["kind"] == "CronJob"]
    commands = [pod["containers"][0]["args"] for pod in pods]
    job = f"local:///opt/openoutbox/{name}.py"
    (arguments,) = [command for command in commands if job in command]
    secret = tmp_path / "url"
    secret.write_text("postgresql://there")
    given = [str(secret) if word == "/secrets/url" else word for word in arguments[arguments.index(job) + 1 :]]
    match name:
        case "ingest":
            assert read_arguments("ingest.py", given).url == "postgresql://there"
        case "archive":
            assert read_archive_arguments("archive.py", given).options.url == "postgresql://there"
