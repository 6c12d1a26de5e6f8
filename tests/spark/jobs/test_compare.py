"""Rows against messages, as DataFrames of literals: what counts as a finding and what does not.

What is matched is computed once, as in the job, which writes it to a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, SparkSession

from relay.core.event import EventId, OutboxEvent
from relay.core.formats import cloudevents
from relay.core.formats.choice import message_format
from relay.core.formats.message import MessageFormat
from relay.spark.jobs.reconcile import summaries
from relay.spark.jobs.reconcile.compare import COMPARED, findings, match, without_row
from relay.spark.jobs.reconcile.fingerprints import expected, from_kafka, from_table

START = datetime(2026, 3, 10, 12, tzinfo=UTC)
TOPIC = "orders"
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
    """A row, from which the relay makes a message."""

    number: int
    key: str | None = "k"
    payload: bytes = b"body"
    headers: str = '{"n": 1.50, "text": "é"}'
    status: str = "DELIVERED"
    topic: str = TOPIC
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
    topic: str = TOPIC
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


def made_messages(sent: Sequence[Sent], made: MessageFormat) -> Iterator[Arrived]:
    """What the relay makes of the rows in a format, each other than the contract's own message."""
    for each in sent:
        number, topic, key, payload, headers, _, created, _ = each.row()
        event = OutboxEvent(EventId(number), topic, key, payload, headers, 0, 0.0, None, created.timestamp())
        message = made(event)
        assert message.own or message.payload != payload
        pairs: list[tuple[str, bytes | None]] = [
            (header, value.encode()) for header, value in [*message.own, *message.others]
        ]
        yield Arrived(each.number, each.number, key and key.encode(), message.payload, pairs, topic)


def test_messages_of_another_format_are_those_that_the_relay_makes(spark: SparkSession) -> None:
    """All formats are compared at once: each one's topic has its name."""
    rows: list[DataFrame] = []
    arrived: list[Arrived] = []
    for first, name in enumerate(("cloudevents", "cloudevents-structured", "debezium-server")):
        made = message_format(name, "/shop", cloudevents.KAFKA)
        assert made is not None
        headers = '{"traceparent": "00", "content-type": "a/b"}'
        sent = [
            Sent(10 * first + 1, created=1.25, topic=name),
            Sent(10 * first + 2, key=None, payload=b"{}", headers=headers, topic=name),
        ]
        rows.append(expected(spark.createDataFrame([each.row() for each in sent], ROWS), (), made))
        arrived += made_messages(sent, made)
    messages = from_kafka(spark.createDataFrame([each.row() for each in arrived], MESSAGES), ())
    matched = match(reduce(DataFrame.union, rows), messages, COMPARED).cache()
    assert findings(matched, messages, ordered=True, unknown=matched.where("NOT known")).collect() == []


Finding = tuple[str, int, str]


@dataclass
class Scene:
    """What was sent and what arrived, in a topic of its own, and the findings: kind, number, detail."""

    sent: list[Sent]
    arrived: list[Arrived]
    findings: list[Finding]


def as_it_was_sent() -> Scene:
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
    return Scene(sent, arrived, [])


def one_of_each_kind() -> Scene:
    sent = [Sent(number) for number in range(101, 113)]
    arrived = [Arrived(number, number) for number in range(101, 113) if number != 102]
    arrived += [
        Arrived(103, 120),
        Arrived(104, 121, payload=b"Body"),
        Arrived(199, 122),
        Arrived(0, 123, identity="no UUID"),
        Arrived(0, 124, identity=""),
    ]
    arrived[4].key = None  # 106
    arrived[5].headers = [("text", b"e"), ("n", b"1.50")]  # 107
    arrived[6].headers = arrived[6].headers[:1]  # 108
    arrived[7].payload = None  # 109
    arrived[8].topic = "other"  # 110
    findings = [
        ("changed", 104, "payload"),
        ("changed", 106, "key"),
        ("changed", 107, "headers"),
        ("changed", 108, "headers"),
        ("changed", 109, "payload"),
        ("changed", 110, "topic"),
        ("duplicated", 103, ""),
        ("duplicated", 104, ""),
        ("missing", 102, ""),
        ("unexpected", 0, "no event id"),
        ("unexpected", 0, "no event id"),
        ("unexpected", 199, "no row of the outbox has this id"),
    ]
    return Scene(sent, arrived, findings)


def out_of_order() -> Scene:
    """Order is that of a key's first deliveries within a partition."""
    sent = [Sent(number, key=key) for number, key in enumerate("aaaabb", 201)]
    sent += [Sent(207, key=None), Sent(208, key=None), Sent(210, key="t", created=50), Sent(209, key="t", created=50)]
    arrived = [
        Arrived(201, 1, b"a"),
        Arrived(203, 2, b"a"),
        Arrived(202, 3, b"a"),
        Arrived(201, 4, b"a"),  # a repeat is not a first delivery
        Arrived(204, 5, b"a"),
        Arrived(206, 6, b"b", partition=1),
        Arrived(205, 7, b"b", partition=0),  # partitions have no order between them
        Arrived(208, 8, None),
        Arrived(207, 9, None),
        Arrived(210, 10, b"t"),
        Arrived(209, 11, b"t"),  # created in the same moment
    ]
    return Scene(sent, arrived, [("duplicated", 201, ""), ("out_of_order", 202, f"after {event_id(203)}")])


def replayed(first: int) -> Scene:
    """Two events, replayed: each copy has its replay's id."""

    def copy(number: int, offset: int, replay: bytes) -> Arrived:
        message = Arrived(number, offset)
        message.headers.append(("replay_id", replay))
        return message

    second = first + 1
    arrived = [Arrived(first, 1), Arrived(second, 2)]
    arrived += [copy(first, 3, b"r"), copy(first, 4, b"s"), copy(second, 5, b"r")]
    return Scene([Sent(first), Sent(second)], arrived, [])


def replayed_and_repeated() -> Scene:
    scene = replayed(401)
    repeat = Arrived(402, 6)
    repeat.headers.append(("replay_id", b"r"))
    return Scene(scene.sent, [*scene.arrived, repeat], [("duplicated", 402, "")])


SCENES: dict[str, Scene] = {
    "as it was sent": as_it_was_sent(),
    "one of each kind": one_of_each_kind(),
    "out of order": out_of_order(),
    "replayed": replayed(301),
    "replayed and repeated": replayed_and_repeated(),
}


@pytest.fixture(scope="module")
def findings_by_topic(spark: SparkSession) -> dict[str, list[Finding]]:
    """The findings of all scenes, compared at once: each scene's topic has its name."""
    sent = [replace(each, topic=name) for name, scene in SCENES.items() for each in scene.sent]
    arrived = [
        replace(each, topic=name) if each.topic == TOPIC else each
        for name, scene in SCENES.items()
        for each in scene.arrived
    ]
    rows, messages = sides(spark, sent, arrived)
    matched = match(rows, messages, COMPARED).cache()
    frame = findings(matched, messages, ordered=True, unknown=matched.where("NOT known"))
    by_topic: dict[str, list[Finding]] = {}
    for row in frame.collect():
        number = UUID(row["event_id"]).int if row["event_id"] else 0
        by_topic.setdefault(row["topic"], []).append((row["kind"], number, row["detail"]))
    return by_topic


@pytest.mark.parametrize("name", SCENES)
def test_findings_name_exactly_the_events_and_kinds(findings_by_topic: dict[str, list[Finding]], name: str) -> None:
    assert sorted(findings_by_topic.get(name, [])) == SCENES[name].findings


def test_findings_are_of_no_other_topic(findings_by_topic: dict[str, list[Finding]]) -> None:
    assert findings_by_topic.keys() <= SCENES.keys()


def test_an_event_that_was_inserted_meanwhile_is_no_finding(spark: SparkSession) -> None:
    rows, messages = sides(spark, [Sent(1)], [Arrived(1, 1), Arrived(2, 2), Arrived(3, 3)])
    matched = match(rows, messages, COMPARED).cache()
    again = spark.createDataFrame([(event_id(1),), (event_id(2),)], "event_id string")
    assert [row["event_id"] for row in without_row(matched.where("NOT known"), again).collect()] == [event_id(3)]


def test_a_consumers_table_is_compared_by_what_it_has(spark: SparkSession) -> None:
    rows, _ = sides(spark, [Sent(1), Sent(2), Sent(3)], [])
    table = spark.createDataFrame(
        [(event_id(1).upper(), "body", {"n": "1.50", "text": "é"}), (event_id(2), "other", {})],
        "id string, body string, headers map<string,string>",
    )
    columns = {"event_id": "id", "payload": "body", "headers": "headers"}
    messages = from_table(table, columns, ())
    matched = match(rows, messages, ("payload", "headers")).cache()
    frame = findings(matched, messages, ordered=False, unknown=matched.where("NOT known"))
    seen = sorted((row["kind"], row["event_id"], row["detail"]) for row in frame.collect())
    assert seen == [("changed", event_id(2), "headers,payload"), ("missing", event_id(3), "")]


def test_counts_and_latencies(spark: SparkSession) -> None:
    sent = [Sent(1), Sent(2), Sent(3, status="PENDING"), Sent(4, status="DEAD"), Sent(5, topic="b", created=7200)]
    rows, messages = sides(spark, sent, [Arrived(1, 1), Arrived(1, 2), Arrived(4, 3), Arrived(9, 4)])
    matched = match(rows, messages, COMPARED).cache()
    frame = findings(matched, messages, ordered=True, unknown=matched.where("NOT known"))
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
