"""The main job: from a row in a transaction to an acknowledged message, every one exactly as it was inserted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import nats
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.nats import MakeStream
from tests.support.fixtures.outbox import Outbox
from tests.support.messages import READ_ONLY, kafka_headers, kafka_key
from tests.support.waiting import patience, wait_until

pytestmark = pytest.mark.timeout(240)

COUNTS = [10_000, pytest.param(100_000, marks=pytest.mark.scale)]

Digest = tuple[str, str | None, bytes, str]
"""Event id, key, digest of the payload, headers as sorted JSON."""


def _digest(event_id: str, key: str | None, payload: bytes, headers: dict[str, str]) -> Digest:
    return event_id, key, hashlib.blake2b(payload, digest_size=8).digest(), json.dumps(headers, sort_keys=True)


def _inserted(outbox: Outbox) -> set[Digest]:
    rows = outbox.rows("event_id::text, partition_key, payload, headers")
    as_text = ({name: v if isinstance(v, str) else json.dumps(v) for name, v in row[3].items()} for row in rows)
    return {_digest(row[0], row[1], row[2], headers) for row, headers in zip(rows, as_text, strict=True)}


def _read_kafka(bootstrap: str, topic: str, count: int) -> Iterator[Digest]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=patience()).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    try:
        got = 0
        while got < count:
            messages = consumer.consume(5000, timeout=patience())
            assert messages, f"only {got} of {count} messages are in the topic"
            for message in messages:
                assert message.error() is None
                headers = kafka_headers(message)
                yield _digest(headers.pop("X-Event-ID"), kafka_key(message), message.value() or b"", headers)
            got += len(messages)
        assert not consumer.consume(1, timeout=0.5), "more messages than events"
    finally:
        consumer.close()


@pytest.mark.parametrize("count", COUNTS)
def test_every_event_arrives_once_through_kafka(
    outbox: Outbox, daemon: StartDaemon, kafka: str, topic: MakeTopic, count: int
) -> None:
    name = topic(partitions=6)
    outbox.fill(name, count)
    relay = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka, BATCH_SIZE="1000")
    outbox.wait_finished(120)
    assert outbox.counts() == {"DELIVERED": count}
    assert set(_read_kafka(kafka, name, count)) == _inserted(outbox)
    outbox.check_invariants()
    assert relay.metric("openoutbox_events_total", status="success") == count
    assert relay.stop() == 0


@pytest.mark.parametrize("count", COUNTS)
async def test_every_event_arrives_once_through_nats(
    outbox: Outbox, daemon: StartDaemon, nats_url: str, stream: MakeStream, count: int
) -> None:
    channel = await stream()
    outbox.fill(channel.subject(), count)
    relay = daemon(PUBLISHER_TYPE="nats", PUBLISHER_URL=nats_url, BATCH_SIZE="1000")
    outbox.wait_finished(150)
    assert outbox.counts() == {"DELIVERED": count}
    got: set[Digest] = set()
    client = await nats.connect(nats_url)
    try:
        jetstream = client.jetstream()
        state = (await jetstream.stream_info(channel.name)).state
        assert state.messages == count
        subscription = await jetstream.pull_subscribe(channel.subject(">"), stream=channel.name, config=READ_ONLY)
        while len(got) < count:
            for message in await subscription.fetch(2000, timeout=patience(10)):
                headers = dict(message.headers or {})
                event_id, key = headers.pop("Nats-Msg-Id"), headers.pop("X-Partition-Key", None)
                got.add(_digest(event_id, key, message.data, headers))
    finally:
        await client.close()
    assert got == _inserted(outbox)
    outbox.check_invariants()
    assert relay.stop() == 0


async def test_an_event_that_the_stream_drops_as_a_repeat_of_another_is_counted_and_named(
    outbox: Outbox, daemon: StartDaemon, nats_url: str, stream: MakeStream
) -> None:
    channel = await stream()
    outbox.fill(channel.subject(), 3)
    first = str(outbox.rows("event_id")[0][0])
    client = await nats.connect(nats_url)
    await client.jetstream().publish(channel.subject("another"), b"", headers={"Nats-Msg-Id": first})
    await client.close()
    relay = daemon(PUBLISHER_TYPE="nats", PUBLISHER_URL=nats_url)
    outbox.wait_finished(30)
    assert relay.metric("openoutbox_events_dropped_as_duplicates_total") == 1
    assert relay.stop() == 0
    [line] = [one for one in relay.log_lines() if one.get("action") == "event_dropped"]
    assert (line["event_id"], line["events"]) == (first, 1)


@contextmanager
def _all_stopped(relays: list[object]) -> Iterator[None]:
    yield
    assert [relay.stop() for relay in relays] == [0] * len(relays)  # type: ignore[attr-defined]


@pytest.mark.parametrize("relays", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_several_relays_deliver_each_event_once(
    outbox: Outbox, daemon: StartDaemon, kafka: str, topic: MakeTopic, relays: int
) -> None:
    name, count = topic(partitions=3), 10_000
    # An event without an answer in time is sent again: a broker on a busy machine may be late for 8 relays at once.
    env = {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka, "KAFKA_WRITE_TIMEOUT": f"{patience(30):g}s"}
    started = [daemon(**env, RELAY_ID=f"relay-{number}").wait_ready(60) for number in range(relays)]
    with _all_stopped(list(started)):
        outbox.fill(name, count)
        outbox.wait_finished(120)
        assert outbox.counts() == {"DELIVERED": count}
        delivered = list(_read_kafka(kafka, name, count))
        assert len(delivered) == len(set(delivered)) == count
        by_relay = [relay.metric("openoutbox_events_total", status="success") for relay in started]
        assert sum(by_relay) == count
        assert sum(1 for delivered_by_one in by_relay if delivered_by_one) >= 2


def test_rows_inserted_while_it_runs_arrive_and_rolled_back_ones_never_do(
    outbox: Outbox, daemon: StartDaemon, kafka: str, topic: MakeTopic, consume: Callable[..., list[object]]
) -> None:
    name = topic()
    daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka).wait_ready()
    with outbox.database.connect(autocommit=False) as connection:
        insert = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (gen_random_uuid(), %s, %s)"
        for number in range(50):
            connection.execute(insert, [name, b"committed %d" % number])
            connection.commit()
            connection.execute(insert, [name, b"rolled back %d" % number])
            connection.rollback()
    outbox.wait_finished(30)
    values = [message.value() for message in consume(name, 50)]  # type: ignore[attr-defined]
    assert values == [b"committed %d" % number for number in range(50)]


def test_standard_output_gets_one_json_object_an_event(outbox: Outbox, daemon: StartDaemon) -> None:
    outbox.fill("some.type", 10)
    relay = daemon(PUBLISHER_TYPE="stdout")
    outbox.wait_finished(30)
    assert relay.stop() == 0
    lines = [json.loads(line) for line in relay.output().splitlines()]
    assert {line["event_id"] for line in lines} == {str(row[0]) for row in outbox.rows("event_id")}
    assert all(isinstance(line, dict) for line in relay.log_lines())


def test_a_database_and_a_broker_that_come_later_are_waited_for(
    outbox: Outbox, daemon: StartDaemon, kafka: str, topic: MakeTopic
) -> None:
    name = topic()
    outbox.database.run("ALTER TABLE openoutbox_events RENAME TO not_there_yet")
    relay = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka)
    wait_until(lambda: relay.running and relay.get("/readyz")[0] == 503, what="the relay to say that it waits")
    assert relay.get("/healthz")[0] == 200
    assert relay.metric("openoutbox_relay_state") == 3
    outbox.database.run("ALTER TABLE not_there_yet RENAME TO openoutbox_events")
    outbox.fill(name, 10)
    outbox.wait_finished(30)
    assert outbox.counts() == {"DELIVERED": 10}
