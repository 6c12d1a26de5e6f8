"""Synthetic orders from end to end: ingested by Spark, relayed to real Kafka, archived, reconciled, reported.

Ten million of them, or ``TEST_SPARK_ORDERS``. Times are printed; what is asserted is that nothing is found, and then
exactly what was done to a hundred messages.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from relay.spark.jobs.archive.job import run as run_archive
from relay.spark.jobs.reconcile.job import FINDINGS
from relay.spark.jobs.reconcile.job import run as run_reconcile
from relay.spark.jobs.report.job import run as run_report
from tests.support.daemon import Daemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.kafka_altering import copy_of, empty, event_id_of, write
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.spark import Save

pytestmark = [pytest.mark.scale, pytest.mark.timeout(6 * 3600)]

ORDERS = int(os.environ.get("TEST_SPARK_ORDERS", "10000000"))
SLOWEST = 1000
"""Events a second that a relay must manage on whatever machine this is; below that something hangs."""

Job = Callable[..., int]


class Figures:
    """What each step took, said as it ends: a later one may fail after an hour."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._say(f"\n{ORDERS:,} orders")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        self._say(f"{name}: {seconds:.0f} s, {ORDERS / seconds:,.0f} orders/s")

    def _say(self, line: str) -> None:
        with self._capsys.disabled():
            print(line, flush=True)


@pytest.fixture
def many_partitions(spark: SparkSession) -> Iterator[None]:
    """Shuffles of a size that fits into the small memory of the tests' session."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, str(max(2, ORDERS // 250_000)))
    yield
    spark.conf.set(name, str(before))


def ingest(spark: SparkSession, save: Save, topic: str) -> None:
    frame = spark.range(0, ORDERS, 1, max(2, ORDERS // 250_000)).selectExpr(
        f"'{topic}' AS event_type",
        "struct(id AS number, concat('customer ', id % 100000) AS customer, id * 7 % 100000 / 100 AS total) AS payload",
        "CAST(id AS STRING) AS partition_key",
        "map('source', 'scale', 'region', concat('r', id % 12)) AS headers",
        "id AS number",
    )
    save(frame, idColumns="number", commit="partition")


def relayed(outbox: Outbox, kafka: str) -> None:
    with Daemon(outbox.url, {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka, "BATCH_SIZE": "1000"}) as relay:
        relay.wait_ready()
        outbox.wait_finished(ORDERS / SLOWEST + 120)
        assert relay.stop() == 0
    assert outbox.counts() == {"DELIVERED": ORDERS}


def first_of(kafka: str, topic: str, count: int) -> list[Message]:
    """The first messages of partition 0."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "scale", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []
    while len(messages) < count:
        messages += consumer.consume(count - len(messages), timeout=30)
    consumer.close()
    return messages


def alter(kafka: str, admin: AdminClient, topic: str) -> dict[str, set[str]]:
    """Take 34 messages out, double 33 and change 33; which they are, by the kind of finding."""
    messages = first_of(kafka, topic, 100)
    doubled, gone, again = messages[67:], messages[:34], messages[34:67]
    last = again[-1].offset()
    assert last is not None
    empty(admin, topic, [(0, last + 1)])
    write(kafka, [*(copy_of(each, value=b"other") for each in again), *(copy_of(each) for each in doubled)])
    kinds = {"missing": gone, "changed": again, "duplicated": doubled}
    return {kind: {event_id_of(message) for message in those} for kind, those in kinds.items()}


def run(capsys: pytest.CaptureFixture[str], job: Job, *arguments: str) -> tuple[int, Any]:
    """The job's exit code, and its JSON or its error."""
    capsys.readouterr()
    code = job("job", [*arguments, "--json"])
    output = capsys.readouterr()
    return code, json.loads(output.out) if output.out else output.err


def check_findings(spark: SparkSession, path: str, altered: Mapping[str, Set[str]]) -> None:
    rows = spark.read.parquet(path).select("kind", "event_id").collect()
    assert {kind: {row["event_id"] for row in rows if row["kind"] == kind} for kind in altered} == altered
    assert len(rows) == 100


def test_orders_from_end_to_end(  # noqa: PLR0917
    spark: SparkSession,
    outbox: Outbox,
    save: Save,
    kafka: str,
    kafka_admin: AdminClient,
    topic: MakeTopic,
    many_partitions: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic(partitions=4)
    figures = Figures(capsys)
    archived = str(tmp_path / "archive")

    def compare(what: str, *sources: str) -> tuple[int, Any]:
        with figures.step(what):
            return run(capsys, run_reconcile, *sources, "--kafka", kafka, "--output", f"{tmp_path}/report")

    with figures.step("ingest"):
        ingest(spark, save, name)
    with figures.step("relay to Kafka"):
        relayed(outbox, kafka)
    code, found = compare("reconcile the outbox", "--url", outbox.url)
    assert (code, found["arrived"], found["messages"]) == (0, ORDERS, ORDERS), found
    with figures.step("archive"):
        code, found = run(capsys, run_archive, archived, "--older-than", "0", "--url", outbox.url)
    assert (code, outbox.counts()) == (0, {}), found
    code, found = compare("reconcile the archive", "--archive", archived)
    assert (code, found["arrived"], found["messages"]) == (0, ORDERS, ORDERS), found

    altered = alter(kafka, kafka_admin, name)
    code, found = compare("reconcile the archive, 100 messages altered", "--archive", archived)
    assert code == FINDINGS, found
    check_findings(spark, f"{tmp_path}/report/findings", altered)
    with figures.step("report of the archive"):
        code, found = run(capsys, run_report, "--archive", archived, "--output", f"{tmp_path}/deliveries")
    assert (code, found["delivered"]) == (0, ORDERS), found
