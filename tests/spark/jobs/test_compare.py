"""Rows against messages, as DataFrames of literals: what counts as a finding and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession

from relay.spark.jobs.reconcile import summaries
from relay.spark.jobs.reconcile.compare import COMPARED, findings, match, without_row
from relay.spark.jobs.reconcile.fingerprints import expected, from_kafka, from_table

START = datetime(2026, 3, 10, 12, tzinfo=UTC)
ROWS = (
    "event_id string, event_type string, partition_key string, payload binary, headers string, status string, "
    "created_at timestamp, delivered_at timestamp"
)
MESSAGES = (
    "topic string, key binary, value binary, headers array<struct<key:string,value:binary>>, partition int, "
    "offset long, timestamp timestamp"
)


def event_id(number: int) -> str:
    return str(UUID(int=number))


@dataclass
class Sent:
    """A row, and the message that the relay made of it."""

    number: int
    key: str | None = "k"
    payload: bytes = b"body"
    headers: str = '{"n": 1.50, "text": "é"}'
    status: str = "DELIVERED"
    topic: str = "orders"
    created: float = 0.0

    def row(self) -> tuple[Any, ...]:
        created = START + timedelta(seconds=self.created or self.number)
        delivered = created + timedelta(seconds=2) if self.status == "DELIVERED" else None
        return (
            event_id(self.number),
            self.topic,
            self.key,
            self.payload,
            self.headers,
            self.status,
            created,
            delivered,
        )


@dataclass
class Arrived:
    """A message."""

    number: int
    offset: int
    key: bytes | None = b"k"
    payload: bytes | None = b"body"
    headers: list[tuple[str, bytes | None]] = field(default_factory=lambda: [("text", "é".encode()), ("n", b"1.50")])
    topic: str = "orders"
    partition: int = 0
    identity: str | None = None

    def row(self) -> tuple[Any, ...]:
        identity = event_id(self.number) if self.identity is None else self.identity
        headers = [("X-Event-ID", identity.encode()), *self.headers] if identity else self.headers
        when = START + timedelta(seconds=self.offset)
        return (self.topic, self.key, self.payload, headers, self.partition, self.offset, when)


def sides(spark: SparkSession, sent: Sequence[Sent], arrived: Sequence[Arrived]) -> tuple[DataFrame, DataFrame]:
    rows = spark.createDataFrame([each.row() for each in sent], ROWS)
    messages = spark.createDataFrame([each.row() for each in arrived], MESSAGES)
    return expected(rows, ("replay_id",)), from_kafka(messages, ("replay_id",))


def found(spark: SparkSession, sent: Sequence[Sent], arrived: Sequence[Arrived]) -> list[tuple[str, int, str]]:
    rows, messages = sides(spark, sent, arrived)
    matched = match(rows, messages, COMPARED)
    frame = findings(matched, messages, ordered=True, unknown=without_row(matched, None))
    return sorted(
        (row["kind"], UUID(row["event_id"]).int if row["event_id"] else 0, row["detail"]) for row in frame.collect()
    )


def test_what_arrived_as_it_was_sent_is_no_finding(spark: SparkSession) -> None:
    sent = [
        Sent(1),
        Sent(2),
        Sent(3, key=None, payload=b"", headers="{}"),
        Sent(4, key=""),
        Sent(5, status="PENDING"),
        Sent(6, status="DELIVERING"),
        Sent(7, status="DEAD"),
        Sent(8, headers='{"x-event-id": "mine", "replay_id": "r"}'),
        Sent(9, status="DEAD"),
    ]
    arrived = [
        Arrived(1, 10),
        Arrived(2, 11),
        Arrived(3, 12, key=None, payload=b"", headers=[]),
        Arrived(4, 13, key=b""),
        Arrived(8, 14, headers=[("X-User-x-event-id", b"mine"), ("replay_id", b"r")]),
        Arrived(9, 15),
    ]
    assert found(spark, sent, arrived) == []


def test_each_kind_names_exactly_its_events(spark: SparkSession) -> None:
    sent = [Sent(number) for number in range(1, 13)]
    arrived = [Arrived(number, number) for number in range(1, 13) if number != 2]
    arrived += [
        Arrived(3, 20),
        Arrived(4, 21, payload=b"Body"),
        Arrived(99, 22),
        Arrived(0, 23, identity="no UUID"),
        Arrived(0, 24, identity=""),
    ]
    arrived[4].key = None  # 6
    arrived[5].headers = [("text", b"e"), ("n", b"1.50")]  # 7
    arrived[6].headers = arrived[6].headers[:1]  # 8
    arrived[7].payload = None  # 9
    arrived[8].topic = "other"  # 10
    assert found(spark, sent, arrived) == [
        ("changed", 4, "payload"),
        ("changed", 6, "key"),
        ("changed", 7, "headers"),
        ("changed", 8, "headers"),
        ("changed", 9, "payload"),
        ("changed", 10, "topic"),
        ("duplicated", 3, ""),
        ("duplicated", 4, ""),
        ("missing", 2, ""),
        ("unexpected", 0, "no event id"),
        ("unexpected", 0, "no event id"),
        ("unexpected", 99, "no row of the outbox has this id"),
    ]


def test_order_is_a_keys_first_delivery_within_a_partition(spark: SparkSession) -> None:
    sent = [Sent(number, key=key) for number, key in enumerate("aaaabb", 1)]
    sent += [Sent(7, key=None), Sent(8, key=None), Sent(10, key="t", created=50), Sent(9, key="t", created=50)]
    arrived = [
        Arrived(1, 1, b"a"),
        Arrived(3, 2, b"a"),
        Arrived(2, 3, b"a"),
        Arrived(1, 4, b"a"),  # a repeat is not a first delivery
        Arrived(4, 5, b"a"),
        Arrived(6, 6, b"b", partition=1),
        Arrived(5, 7, b"b", partition=0),  # of another partition: nobody knows
        Arrived(8, 8, None),
        Arrived(7, 9, None),
        Arrived(10, 10, b"t"),
        Arrived(9, 11, b"t"),  # created in the same moment
    ]
    assert found(spark, sent, arrived) == [("duplicated", 1, ""), ("out_of_order", 2, f"after {event_id(3)}")]


def test_a_replays_copies_are_no_duplicates_but_its_repeats_are(spark: SparkSession) -> None:
    def replayed(number: int, offset: int, replay: bytes) -> Arrived:
        message = Arrived(number, offset)
        message.headers.append(("replay_id", replay))
        return message

    sent = [Sent(1), Sent(2)]
    arrived = [Arrived(1, 1), Arrived(2, 2), replayed(1, 3, b"r"), replayed(1, 4, b"s"), replayed(2, 5, b"r")]
    assert found(spark, sent, arrived) == []
    assert found(spark, sent, [*arrived, replayed(2, 6, b"r")]) == [("duplicated", 2, "")]


def test_an_event_that_came_meanwhile_is_no_stranger(spark: SparkSession) -> None:
    rows, messages = sides(spark, [Sent(1)], [Arrived(1, 1), Arrived(2, 2), Arrived(3, 3)])
    matched = match(rows, messages, COMPARED)
    again = spark.createDataFrame([(event_id(1),), (event_id(2),)], "event_id string")
    assert [row["event_id"] for row in without_row(matched, again).collect()] == [event_id(3)]


def test_a_consumers_table_is_compared_by_what_it_has(spark: SparkSession) -> None:
    rows, _ = sides(spark, [Sent(1), Sent(2), Sent(3)], [])
    table = spark.createDataFrame(
        [(event_id(1).upper(), "body", {"n": "1.50", "text": "é"}), (event_id(2), "other", {})],
        "id string, body string, headers map<string,string>",
    )
    columns = {"event_id": "id", "payload": "body", "headers": "headers"}
    messages = from_table(table, columns, ())
    matched = match(rows, messages, ("payload", "headers"))
    frame = findings(matched, messages, ordered=False, unknown=without_row(matched, None))
    seen = sorted((row["kind"], row["event_id"], row["detail"]) for row in frame.collect())
    assert seen == [("changed", event_id(2), "headers,payload"), ("missing", event_id(3), "")]


def test_counts_and_latencies(spark: SparkSession) -> None:
    sent = [Sent(1), Sent(2), Sent(3, status="PENDING"), Sent(4, status="DEAD"), Sent(5, topic="b", created=7200)]
    rows, messages = sides(spark, sent, [Arrived(1, 1), Arrived(1, 2), Arrived(4, 3), Arrived(9, 4)])
    matched = match(rows, messages, COMPARED)
    frame = findings(matched, messages, ordered=True, unknown=without_row(matched, None))
    sums = summaries.totals(matched)
    names = ("rows", "delivered", "waiting", "dead", "arrived", "dead_arrived", "copies", "latency_p50", "latency_max")
    assert [sums[name] for name in names] == [5, 3, 1, 1, 2, 1, 4, 2.0, 2.0]
    topics = {row["topic"]: row.asDict() for row in summaries.by_topic(matched, frame).collect()}
    columns = ("events", "copies", "missing", "duplicated", "unexpected", "latency_p99")
    assert {topic: [row[name] for name in columns] for topic, row in topics.items()} == {
        "orders": [4, 4, 1, 1, 1, 2.0],
        "b": [1, 0, 1, 0, 0, 2.0],
    }
    hours = {(row["topic"], row["hour"]): row["events"] for row in summaries.by_hour(matched).collect()}
    assert {(topic, hour.astimezone(UTC).hour): count for (topic, hour), count in hours.items()} == {
        ("orders", 12): 4,
        ("b", 14): 1,
    }
    buckets = summaries.curve(matched, 3600)
    assert [(bucket.start, bucket.counts["events"], bucket.counts["missing"]) for bucket in buckets] == [
        (int(START.timestamp()), 4, 1),
        (int(START.timestamp()) + 7200, 1, 1),
    ]
    assert [count for _, _, count in summaries.latency_histogram(matched)] == [3]
