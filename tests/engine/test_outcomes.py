"""Each outcome ends in the row as the contract says."""

from __future__ import annotations

import json

import pytest

from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, TimedOut, Transient
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.postgres.sql import TableName
from tests.engine.conftest import StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually


async def test_everything_is_delivered_and_offered_once(outbox: Outbox, start: StartRelay) -> None:
    outbox.fill("topic", 5_000)
    running = await start()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 5_000})
    outbox.check_invariants()
    assert len(running.broker.offered) == 5_000
    await eventually(lambda: running.telemetry.counts["delivered"] == 5_000)
    assert running.telemetry.counts["leases_lost"] == 0
    assert outbox.rows("max(attempts)") == [(0,)]


async def test_events_of_one_claim_are_offered_oldest_first(outbox: Outbox, start: StartRelay) -> None:
    ids = []
    for _ in range(30):
        ids += outbox.insert([Row("topic")])
    running = await start()
    await eventually(lambda: len(running.broker.offered) == 30)
    assert [event.event_id for event in running.broker.offered] == ids


@pytest.mark.parametrize(
    ("outcome", "status", "attempts"),
    [(Permanent("TOO_LARGE", "11 MiB"), "DEAD", 1), (Transient("LEADER", "changed"), "PENDING", 1)],
)
async def test_failures(outbox: Outbox, start: StartRelay, outcome: Outcome, status: str, attempts: int) -> None:
    bad, good = outbox.insert([Row("bad"), Row("good")])
    broker = MemoryPublisher()
    broker.answer_with(lambda event: outcome if event.event_type == "bad" else ACKNOWLEDGED)
    running = await start(broker)
    await eventually(lambda: outbox.counts() == {status: 1, "DELIVERED": 1})
    row = outbox.row(bad)
    assert row["attempts"] == attempts
    assert row["last_error"] in ("TOO_LARGE: 11 MiB", "LEADER: changed")
    assert outbox.row(good)["last_error"] is None
    due = outbox.database.run(
        "SELECT available_at > now() + interval '50 s' FROM openoutbox_events WHERE event_id = %s", [bad]
    )
    assert due == [(status == "PENDING",)]
    outbox.check_invariants()
    await eventually(lambda: running.telemetry.counts["failed"] == 1)


async def test_the_last_transient_failure_is_the_end(outbox: Outbox, start: StartRelay) -> None:
    [event_id] = outbox.insert([Row("bad")])
    outbox.database.run("UPDATE openoutbox_events SET attempts = 2")
    broker = MemoryPublisher()
    broker.answer_with(lambda _: Transient("NOPE", ""))
    await start(broker)
    await eventually(lambda: outbox.counts() == {"DEAD": 1})
    assert outbox.row(event_id)["attempts"] == 3
    assert outbox.row(event_id)["last_error"] == "NOPE"


async def test_an_event_without_an_answer_does_not_hold_up_others(outbox: Outbox, start: StartRelay) -> None:
    [slow] = outbox.insert([Row("slow")])
    outbox.insert([Row("fast")] * 50)
    broker = MemoryPublisher()
    broker.answer_with(lambda event: None if event.event_type == "slow" else ACKNOWLEDGED)
    running = await start(broker)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 50, "DELIVERING": 1})
    running.broker.answer(ACKNOWLEDGED, EventId(slow))
    await eventually(lambda: outbox.counts() == {"DELIVERED": 51})


async def test_a_timeout_is_an_attempt_where_the_broker_answers(outbox: Outbox, start: StartRelay) -> None:
    [event_id] = outbox.insert([Row("slow")])
    broker = MemoryPublisher()
    broker.answer_with(lambda _: TimedOut("TIMED_OUT", "no acknowledgement"))
    await start(broker)
    await eventually(lambda: outbox.row(event_id)["attempts"] == 1)
    assert outbox.row(event_id)["status"] == "PENDING"
    assert outbox.row(event_id)["last_error"] == "TIMED_OUT: no acknowledgement"


async def test_in_flight_is_bounded(outbox: Outbox, start: StartRelay) -> None:
    outbox.fill("topic", 500)
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker, batch_size=20, max_in_flight=80)
    await eventually(lambda: len(broker.offered) == 60)  # a quarter of the places is for other destinations
    while outbox.counts() != {"DELIVERED": 500}:
        await eventually(lambda: broker.held or outbox.counts() == {"DELIVERED": 500})
        broker.answer()
    assert running.telemetry.most_in_flight == 60


async def test_payload_bytes_in_flight_are_bounded_and_a_larger_row_goes_alone(
    outbox: Outbox, start: StartRelay
) -> None:
    outbox.insert([Row("topic", b"x" * 1000)] * 10 + [Row("topic", b"y" * 50_000)] + [Row("topic", b"z" * 1000)] * 10)
    broker = MemoryPublisher()
    await start(broker, batch_bytes=4000)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 21})


async def test_a_row_that_the_database_refuses_to_settle_does_not_hold_up_others(
    outbox: Outbox, start: StartRelay
) -> None:
    [bad] = outbox.insert([Row("bad")])
    outbox.fill("good", 300)
    outbox.database.run("""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'not this one'; END $$
    """)
    outbox.database.run("""
        CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW
        WHEN (NEW.status = 'DELIVERED' AND NEW.event_type = 'bad') EXECUTE FUNCTION refuse()
    """)
    await start()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 300, "DELIVERING": 1})
    assert outbox.row(bad)["status"] == "DELIVERING"


async def test_a_publisher_that_raises_costs_its_batch_an_attempt(outbox: Outbox, start: StartRelay) -> None:
    class Raising(MemoryPublisher):
        async def publish(self, events: object, sink: object) -> None:
            raise RuntimeError("a bug")

    outbox.insert([Row("topic")] * 3)
    await start(Raising())
    await eventually(lambda: outbox.rows("sum(attempts)") == [(3,)])
    assert outbox.rows("DISTINCT last_error, status") == [("RuntimeError: a bug", "PENDING")]


async def test_unusual_event_fields_reach_the_publisher_unchanged(outbox: Outbox, start: StartRelay) -> None:
    payload = bytes(range(256))
    [event_id] = outbox.insert([Row("ünï ✓", payload, "key\n", '{"a": 1.10}')])
    running = await start()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 1})
    [event] = running.broker.offered
    assert event[:6] == OutboxEvent(EventId(event_id), "ünï ✓", "key\n", payload, '{"a": 1.10}', 0, 0.0)[:6]


@pytest.mark.parametrize("key_order", [None, *KeyOrder])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("event_type", "repeat('t', 1000000)"),
        ("event_type", "repeat('\N{EURO SIGN}', 1366)"),
        ("headers", "jsonb_build_object('a', repeat('b', 1048576))"),
        ("headers", "(SELECT jsonb_object_agg(n, n) FROM generate_series(1, 10001) AS n)"),
    ],
)
async def test_what_is_too_large_is_dead_and_no_broker_gets_it(
    outbox: Outbox, start: StartRelay, column: str, value: str, key_order: KeyOrder | None
) -> None:
    add_extension(outbox.owner_url, TableName(), "key-order")
    *before, large, behind = outbox.insert([Row("topic", partition_key="key")] * 5)
    outbox.database.run(f"UPDATE openoutbox_events SET {column} = {value} WHERE event_id = '{large}'")
    running = await start(key_order=key_order)
    block = key_order is KeyOrder.BLOCK
    held = {"DELIVERED": 3, "PENDING": 1} if block else {"DELIVERED": 4}
    await eventually(lambda: outbox.counts() == {"DEAD": 1, **held})
    assert [event.event_id for event in running.broker.offered] == (before if block else [*before, behind])
    assert str(outbox.row(large)["last_error"]).startswith("TOO_LARGE: it")
    outbox.check_invariants()


@pytest.mark.parametrize("key_order", [None, *KeyOrder])
async def test_a_type_that_no_pattern_allows_is_dead_and_no_broker_gets_it(
    outbox: Outbox, start: StartRelay, key_order: KeyOrder | None
) -> None:
    add_extension(outbox.owner_url, TableName(), "key-order")
    types = ("orders.placed", "orders.", "user.signup", "order", "user.signup.again", "$KV.config.a", "b" * 5000)
    rows = dict(
        zip(
            outbox.insert([Row(one, partition_key=str(number)) for number, one in enumerate(types)]), types, strict=True
        )
    )
    running = await start(key_order=key_order, allowed_types=("orders.*", "user.signup"))
    await eventually(lambda: outbox.counts() == {"DEAD": 4, "DELIVERED": 3})
    assert {event.event_type for event in running.broker.offered} == set(types[:3])
    errors = {types: str(outbox.row(event_id)["last_error"]) for event_id, types in rows.items()}
    assert errors["order"] == "NOT_ALLOWED: no pattern of ALLOWED_EVENT_TYPES matches 'order'"
    assert errors["b" * 5000].startswith("TOO_LARGE: ")


async def test_what_is_at_the_limit_is_delivered_whole(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("t" * 4096), Row("topic")])
    headers = "(SELECT jsonb_object_agg(n, n) FROM generate_series(1, 10000) AS n)"
    outbox.database.run(f"UPDATE openoutbox_events SET headers = {headers} WHERE event_type = 'topic'")
    running = await start()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 2})
    offered = {event.event_type: event.headers for event in running.broker.offered}
    assert len(json.loads(offered["topic"])) == 10_000
    assert "t" * 4096 in offered
