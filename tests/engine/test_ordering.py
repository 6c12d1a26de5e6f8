"""Order per key in a running relay: of each key one event is with the broker, whatever becomes of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from relay.core.backoff import RetryPolicy
from relay.core.errors import SchemaError
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, TimedOut, Transient
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.postgres.sql import TableName
from tests.engine.conftest import StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually

QUICK = RetryPolicy(max_attempts=10, base_delay=0.05, max_delay=0.2, jitter=0.5)


@pytest.fixture
def ordered(outbox: Outbox) -> Outbox:
    """The outbox with the column that order per key needs."""
    add_extension(outbox.owner_url, TableName(), "key-order")
    return outbox


def numbered(keys: int, each: int) -> list[Row]:
    """Events ``0``, ``1``, … of every key, dealt out in turn."""
    return [Row("topic", str(number).encode(), f"key-{key}") for number in range(each) for key in range(keys)]


def first_deliveries(broker: MemoryPublisher) -> dict[str | None, list[int]]:
    """What the broker has of each key, without repeats."""
    numbers: dict[str | None, list[int]] = defaultdict(list)
    for event in broker.messages:
        number = int(event.payload)
        if number not in numbers[event.partition_key]:
            numbers[event.partition_key].append(number)
    return numbers


async def test_events_of_one_transaction_arrive_in_the_order_of_their_insertion(
    ordered: Outbox, start: StartRelay
) -> None:
    ordered.insert(numbered(keys=5, each=40))
    running = await start(key_order=KeyOrder.SKIP, batch_size=30)
    await eventually(lambda: ordered.counts() == {"DELIVERED": 200})
    assert first_deliveries(running.broker) == {f"key-{key}": list(range(40)) for key in range(5)}
    assert len(running.broker.messages) == 200
    ordered.check_invariants()


async def test_one_event_of_a_key_is_unacknowledged_at_a_time_and_keyless_ones_flow(
    ordered: Outbox, start: StartRelay
) -> None:
    ordered.insert([*numbered(keys=3, each=4), *[Row("topic", b"0")] * 20])
    broker = MemoryPublisher()
    broker.hold()
    await start(broker, key_order=KeyOrder.SKIP)
    await eventually(lambda: len(broker.held) == 23)
    while ordered.unfinished():
        in_hand = Counter(event.partition_key for event in broker.held)
        assert all(count == 1 for key, count in in_hand.items() if key is not None)
        if broker.held:
            broker.answer(ACKNOWLEDGED, broker.held[0].event_id)
        await eventually(lambda: bool(broker.held) or not ordered.unfinished())
    assert first_deliveries(broker)["key-1"] == [0, 1, 2, 3]


async def test_order_holds_over_two_relays_and_through_retries(ordered: Outbox, start: StartRelay) -> None:
    ordered.insert(numbered(keys=10, each=30))
    broker = MemoryPublisher()
    attempts: Counter[EventId] = Counter()

    def one_in_five_fails_twice(event: OutboxEvent) -> Outcome:
        attempts[event.event_id] += 1
        bad = int(event.payload) % 5 == 3 and attempts[event.event_id] <= 2
        return Transient("NOPE", "") if bad else ACKNOWLEDGED

    broker.answer_with(one_in_five_fails_twice)
    for relay_id in ("one", "two"):
        await start(broker, relay_id, KeyOrder.SKIP, batch_size=7, retry=QUICK)
    await eventually(lambda: ordered.counts() == {"DELIVERED": 300})
    assert first_deliveries(broker) == {f"key-{key}": list(range(30)) for key in range(10)}
    assert len(broker.messages) == 300
    assert ordered.rows("sum(attempts)") == [(2 * 10 * 6,)]
    ordered.check_invariants()


async def test_what_is_behind_a_failed_event_is_released_without_an_attempt(ordered: Outbox, start: StartRelay) -> None:
    ordered.insert(numbered(keys=1, each=5))
    broker = MemoryPublisher()
    broker.answer_with(lambda event: Transient("NOPE", "") if event.payload == b"1" else ACKNOWLEDGED)
    running = await start(broker, key_order=KeyOrder.SKIP)
    await eventually(lambda: ordered.counts() == {"DELIVERED": 1, "PENDING": 4})
    assert [event.payload for event in broker.offered] == [b"0", b"1"]
    assert sorted(ordered.rows("payload, attempts")) == [(b"0", 0), (b"1", 1), (b"2", 0), (b"3", 0), (b"4", 0)]
    await eventually(lambda: running.telemetry.counts["released"] == 3)


@pytest.mark.parametrize("key_order", list(KeyOrder))
async def test_a_dead_event_is_passed_by_or_holds_its_key_until_replayed(
    ordered: Outbox, start: StartRelay, key_order: KeyOrder
) -> None:
    ids = ordered.insert(numbered(keys=1, each=4))
    broker = MemoryPublisher()
    broker.answer_with(lambda event: Permanent("BAD", "") if event.payload == b"1" else ACKNOWLEDGED)
    await start(broker, key_order=key_order)
    block = key_order is KeyOrder.BLOCK
    wanted = {"DELIVERED": 1, "DEAD": 1, "PENDING": 2} if block else {"DELIVERED": 3, "DEAD": 1}
    await eventually(lambda: ordered.counts() == wanted)
    assert [event.payload for event in broker.messages] == ([b"0"] if block else [b"0", b"2", b"3"])
    broker.answer_with(lambda _: ACKNOWLEDGED)
    replay = "UPDATE openoutbox_events SET status = 'PENDING', attempts = 0, last_error = NULL WHERE event_id = %s"
    ordered.database.run(replay, [ids[1]])
    await eventually(lambda: ordered.counts() == {"DELIVERED": 4})
    if block:
        assert [event.payload for event in broker.messages] == [b"0", b"1", b"2", b"3"]


async def test_a_timeout_holds_what_is_behind_it_until_it_is_decided(ordered: Outbox, start: StartRelay) -> None:
    ordered.insert(numbered(keys=2, each=3))
    broker = MemoryPublisher()
    slow = {"key-0"}
    broker.answer_with(lambda one: TimedOut("TIMED_OUT", "") if one.partition_key in slow else ACKNOWLEDGED)
    await start(broker, key_order=KeyOrder.SKIP, retry=replace(QUICK, max_attempts=100_000))
    await eventually(lambda: ordered.rows("max(attempts) > 0") == [(True,)])
    assert {event.payload for event in broker.offered if event.partition_key == "key-0"} == {b"0"}
    slow.clear()
    await eventually(lambda: ordered.counts() == {"DELIVERED": 6})
    assert first_deliveries(broker) == {"key-0": [0, 1, 2], "key-1": [0, 1, 2]}


async def test_a_broker_that_goes_away_gets_the_whole_run_released(ordered: Outbox, start: StartRelay) -> None:
    ordered.insert(numbered(keys=2, each=10))
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker, key_order=KeyOrder.SKIP)
    await eventually(lambda: len(broker.held) == 2)
    broker.down()
    broker.answer(ACKNOWLEDGED, broker.held[0].event_id)
    await eventually(lambda: ordered.counts() == {"DELIVERED": 1, "PENDING": 19})
    assert ordered.rows("max(attempts)") == [(0,)]
    broker.answer_with(lambda _: ACKNOWLEDGED)
    broker.up()
    await eventually(lambda: ordered.counts() == {"DELIVERED": 20})
    assert first_deliveries(broker) == {f"key-{key}": list(range(10)) for key in range(2)}
    await eventually(lambda: running.relay.inflight.events == 0)


async def test_leases_of_a_long_run_are_renewed(ordered: Outbox, start: StartRelay) -> None:
    ordered.insert(numbered(keys=1, each=6))
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker, key_order=KeyOrder.SKIP, lease_timeout=0.6)
    for number in range(6):
        await eventually(lambda: len(broker.held) == 1)
        renewed = running.telemetry.ops["renew", True]
        await eventually(lambda renewed=renewed: running.telemetry.ops["renew", True] > renewed + 1)  # type: ignore[misc]
        assert broker.held[0].payload == str(number).encode()
        broker.answer()
    await eventually(lambda: ordered.counts() == {"DELIVERED": 6})
    assert ordered.rows("max(attempts)") == [(0,)]


async def test_a_relay_that_lost_its_leases_offers_nothing_more_of_the_key(ordered: Outbox, start: StartRelay) -> None:
    ordered.insert(numbered(keys=1, each=4))
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker, key_order=KeyOrder.SKIP, lease_timeout=1.0)
    await eventually(lambda: len(broker.held) == 1)
    taken_back = "UPDATE openoutbox_events SET status = 'PENDING', locked_by = NULL, locked_at = NULL, attempts = 1, {}"
    where = "available_at = now() + interval '1 hour' WHERE payload = '0'"
    ordered.database.run(taken_back.format(where))
    await eventually(lambda: running.telemetry.counts["leases_lost"] == 1)
    await eventually(lambda: ordered.counts() == {"PENDING": 4})
    broker.answer()
    await eventually(lambda: running.relay.inflight.events == 0)
    assert len(broker.offered) == 1
    ordered.check_invariants()


async def test_without_the_column_the_relay_refuses_to_start(outbox: Outbox, start: StartRelay) -> None:
    running = await start(key_order=KeyOrder.SKIP)
    with pytest.raises(SchemaError, match="relay-cli migrate --table openoutbox_events --with key-order"):
        await running.task
