"""What the relay has carried to real Kafka is reconciled: no findings, and then exactly the changes made to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from relay.spark.jobs.reconcile.job import FINDINGS, run
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.granted import granted
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.kafka_altering import Copy, copy_of, empty, event_id_of, headers_of, rewrite, write
from tests.support.fixtures.outbox import Outbox

COUNT = 1000
Read = Callable[..., list[Message]]


def changed(message: Message, how: int) -> Copy:
    """The message with another body, key or header."""
    key, value = message.key(), message.value()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    if how == 0:
        return copy_of(message, value=value[:-1] + bytes([value[-1] ^ 1]))
    if how == 1:
        return copy_of(message, key=key + b"?")
    return copy_of(message, headers=[*headers_of(message), ("more", b"")])


def delivered(outbox: Outbox, topic: str, daemon: StartDaemon, kafka: str) -> None:
    """Insert events and let a relay carry them, each key's in order."""
    add_extension(outbox.url, TableName(), "key-order")
    for _ in range(4):
        outbox.fill(topic, COUNT // 4)
    relay = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka, BATCH_SIZE="1000", ORDERING="key").wait_ready()
    outbox.wait_finished(120)
    assert relay.stop() == 0
    assert outbox.counts() == {"DELIVERED": COUNT}


def test_the_findings_are_exactly_the_changes_to_the_messages(  # noqa: PLR0917
    spark: SparkSession,
    outbox: Outbox,
    daemon: StartDaemon,
    kafka: str,
    kafka_admin: AdminClient,
    topic: MakeTopic,
    consume: Read,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic(partitions=3)
    delivered(outbox, name, daemon, kafka)
    arguments = ["--url", outbox.url, "--kafka", kafka, "--output", f"{tmp_path}/report", "--json", "--partitions", "4"]

    assert run("reconcile", arguments) == 0, capsys.readouterr().err
    check_nothing_found(spark, json.loads(capsys.readouterr().out), tmp_path / "report")

    messages = consume(name, COUNT)
    removed = {event_id_of(message) for message in messages[0::30]}
    doubled = {event_id_of(message) for message in messages[10::30]}
    altered = {event_id_of(message): number % 3 for number, message in enumerate(messages[20::30])}
    assert len(removed) + len(doubled) + len(altered) == 100

    def alter(_: int, message: Message) -> list[Copy]:
        event = event_id_of(message)
        if event in removed:
            return []
        if event in altered:
            return [changed(message, altered[event])]
        return [copy_of(message)] * (2 if event in doubled else 1)

    empty(kafka_admin, name)
    rewrite(kafka, messages, alter)
    assert run("reconcile", arguments) == FINDINGS
    counted = json.loads(capsys.readouterr().out)["findings"]
    assert counted == {"missing": 34, "duplicated": 33, "changed": 33, "out_of_order": 0, "unexpected": 0}
    check_findings(spark, tmp_path / "report", removed, doubled, altered)


def check_nothing_found(spark: SparkSession, summary: dict[str, Any], report: Path) -> None:
    assert set(summary["findings"].values()) == {0}
    assert (summary["rows"], summary["arrived"], summary["messages"]) == (COUNT, COUNT, COUNT)
    assert spark.read.parquet(f"{report}/findings").count() == 0
    assert json.loads((report / "summary.json").read_text()) == summary


def check_findings(
    spark: SparkSession, report: Path, removed: set[str], doubled: set[str], altered: dict[str, int]
) -> None:
    """The report names exactly these events, each with its kind; nothing is left of the work."""
    rows = spark.read.parquet(f"{report}/findings").collect()
    by_kind: dict[str, set[str]] = {}
    for row in rows:
        by_kind.setdefault(row["kind"], set()).add(row["event_id"])
    assert by_kind == {"missing": removed, "duplicated": doubled, "changed": altered.keys()}
    how = {row["event_id"]: row["detail"] for row in rows if row["kind"] == "changed"}
    assert how == {event: ("payload", "key", "headers")[number] for event, number in altered.items()}
    assert sum(json.loads((report / "summary.json").read_text())["findings"].values()) == 100
    assert not (report / "_work").exists()


def test_an_unknown_message_is_a_finding_that_may_be_tolerated(
    spark: SparkSession,
    outbox: Outbox,
    kafka: str,
    topic: MakeTopic,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a relay: what is in the topic was written by another producer."""
    name = topic()
    outbox.fill(name, 3)
    write(kafka, [{"topic": name, "value": b"?", "headers": [("X-Event-ID", b"mine")]}])
    arguments = ["--url", outbox.url, "--kafka", kafka, "--topics", f"{name},{name}.no-topic"]
    arguments += ["--output", str(tmp_path / "report"), "--tolerate", "unexpected"]
    assert run("reconcile", arguments) == 0
    assert capsys.readouterr().out.startswith("1 unexpected: 0 delivered events, 1 messages\n")
    (finding,) = spark.read.parquet(f"{tmp_path}/report/findings").collect()
    assert (finding["kind"], finding["detail"]) == ("unexpected", "no event id")


def test_what_a_consumer_wrote(
    spark: SparkSession, outbox: Outbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outbox.fill("orders", 50)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now()")
    rows = [(str(event), bytes(body), key) for event, body, key in outbox.rows("event_id, payload, partition_key")]
    rows[7] = (rows[7][0], b"other", rows[7][2])
    spark.createDataFrame([*rows[1:], rows[3]], "id string, body binary, k string").write.parquet(f"{tmp_path}/table")
    arguments = ["--consumer", f"{tmp_path}/table", "--output", f"{tmp_path}/report"]
    arguments += ["--consumer-columns", "event_id=id,payload=body,key=k"]
    with granted(outbox.database, "docs/guide/spark-reconcile.md", "spark_reader") as url:
        assert run("reconcile", arguments, url=url) == FINDINGS
    output = capsys.readouterr().out
    assert output.startswith("1 missing, 1 duplicated, 1 changed: 50 delivered events, 50 messages\n")
    findings = spark.read.parquet(f"{tmp_path}/report/findings").collect()
    assert {(row["kind"], row["event_id"]) for row in findings} == {
        ("missing", rows[0][0]),
        ("duplicated", rows[3][0]),
        ("changed", rows[7][0]),
    }


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--kafka", "127.0.0.1:9", "--table", "nowhere"], 1, "there is no table nowhere"),
        (["--consumer", "/nowhere/at/all"], 1, "PATH_NOT_FOUND"),
    ],
)
def test_what_is_wrong_is_one_line(
    spark: SparkSession,
    outbox: Outbox,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    message: str,
) -> None:
    assert run("reconcile", ["--url", outbox.url, "--output", f"{tmp_path}/report", *more]) == code
    # What takes over two seconds says what it does.
    output = [line for line in capsys.readouterr().err.splitlines() if line != "reconcile: reading the outbox"]
    assert len(output) == 1
    assert output[0].startswith("error: ")
    assert message in output[0]
