"""docs/guide/from-debezium.md, walked: Debezium Server, then the relay, carry the same rows to one topic, all alike.

Debezium Server's distribution is fetched once, 780 MB, into ``.cache``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg
import pytest

from benchmarks.debezium import TABLE, DebeziumServer
from relay.localservers.postgres import PostgresServer
from relay.outbox.extensions import add_extension
from relay.outbox.migrate import migrate
from relay.postgres.sql import TableName
from tests.support.daemon import Daemon
from tests.support.documents import blocks
from tests.support.fixtures.kafka import MakeTopic
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.scale,
    pytest.mark.kafka,
    pytest.mark.postgres,
    pytest.mark.process,
    pytest.mark.timeout(1800),
]

ROWS = [
    ("1", "OrderPlaced", '{"b": [1, {"c": null}], "n": 12345678901234567890123, "f": 1.10, "ü": "✓ \\n \\""}'),
    ("two words", 'Order "placed" ✓', "[]"),
    ("ключ", "a", '"text"'),
    ("", "empty key", "17"),
    ("1", "OrderShipped", "null"),
    *((f"key {number}", "many", f'{{"number": {number}}}') for number in range(200)),
]
SQL = [block.text for block in blocks("docs/guide/from-debezium.md") if block.language == "sql"]
NULL = ("no payload", "Deleted", None)
PLACEMENT = {"debezium.transforms.outbox.table.fields.additional.placement": "type:header:eventType"}


class Received(NamedTuple):
    """What a consumer sees of a message."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]

    @classmethod
    def of(cls, message: Any) -> Received:
        return cls(message.partition(), message.key(), message.value(), dict(message.headers()))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with PostgresServer(settings={"wal_level": "logical"}) as server:
        yield server.url


def by_id(messages: list[Received]) -> dict[bytes, Received]:
    found = {message.headers["id"]: message for message in messages}
    assert len(found) == len(messages), "each event came once"
    return found


def test_consumers_see_what_debezium_sent(
    url: str, kafka: str, topic: MakeTopic, consume: Callable[..., list[Any]]
) -> None:
    name = topic(partitions=6, prefix="outbox.event.order")
    ids = [uuid.uuid4() for _ in range(len(ROWS) + 1)]
    rows = [
        (str(event_id), name.removeprefix("outbox.event."), key, kind, payload)
        for event_id, (key, kind, payload) in zip(ids, [*ROWS, NULL], strict=True)
    ]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE.encode())
        with DebeziumServer(url, kafka, {}, ["-Xmx256m"], PLACEMENT):
            write(connection, rows)
            theirs = [Received.of(message) for message in consume(name, len(rows), 120)]
        walk(connection, url)
        connection.execute("DELETE FROM outbox")
        write(connection, rows)
        settings = {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": f"kafka://{kafka}?partitioner=murmur2_random"}
        with Daemon(url, {**settings, "MESSAGE_FORMAT": "debezium-server", "ORDERING": "key"}):
            wait_until(lambda: delivered(connection) == len(rows), 60, "the relay")
        connection.execute(SQL[2].encode())
        assert connection.execute("SELECT FROM pg_replication_slots").fetchall() == []
    both = [Received.of(message) for message in consume(name, 2 * len(rows))]
    ours = by_id([message for message in both if "X-Event-ID" in message.headers])
    assert by_id(theirs).keys() == ours.keys()
    for event_id, message in by_id(theirs).items():
        compare(message, ours[event_id], is_null=event_id == f'"{ids[-1]}"'.encode())


def write(connection: psycopg.Connection, rows: Sequence[tuple[str | None, ...]]) -> None:
    connection.cursor().executemany("INSERT INTO outbox VALUES (%s, %s, %s, %s, %s)", rows)


def walk(connection: psycopg.Connection, url: str) -> None:
    """The page's step 1 as the commands do it, and steps 2 and 3 as they stand there."""
    migrate(url, TableName())
    add_extension(url, TableName(), "key-order")
    slots, trigger, _ = SQL
    assert connection.execute(slots.encode()).fetchone()
    connection.execute(trigger.encode())


def delivered(connection: psycopg.Connection) -> int:
    found = connection.execute("SELECT count(*) FROM openoutbox_events WHERE status = 'DELIVERED'").fetchone()
    return int(found[0]) if found else 0


def compare(theirs: Received, ours: Received, *, is_null: bool) -> None:
    """Fail where the page's table does not say that they differ."""
    assert (ours.partition, ours.key) == (theirs.partition, theirs.key)
    assert (theirs.value, ours.value) == (None, b"") if is_null else ours.value == theirs.value
    context = {header for header in theirs.headers if header.startswith("__debezium.context.")}
    assert context
    assert {header: theirs.headers[header] for header in theirs.headers.keys() - context} == {
        header: ours.headers[header] for header in ours.headers.keys() - {"X-Event-ID"}
    }
