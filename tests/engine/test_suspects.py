"""An event on which the broker cuts the connection stops only itself; an outage costs no attempt."""

from __future__ import annotations

import pytest

from relay.core.errors import ConfigError
from relay.core.event import EventId, OutboxEvent, Status
from relay.core.outcome import ACKNOWLEDGED
from relay.core.telemetry import RelayState
from relay.engine.relay import Relay
from relay.engine.suspects import LANES
from relay.outbox.outbox_options import KeyOrder
from tests.support.doubles.faulty_storage import FaultyOutbox
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine

BOUND = 10.0
"""Seconds in which each innocent event is delivered (docs/design/guarantees.md#failures)."""


@pytest.fixture
def broker() -> MemoryPublisher:
    """A broker that answers after 5 ms, and cuts the connection on events of type "poison"."""
    broker = MemoryPublisher()
    broker.round_trip = 0.005
    broker.cuts("poison")
    return broker


def innocents(one: VirtualRelay) -> list[EventId]:
    return [row.event_id for row in one.table.rows.values() if row.event_type != "poison"]


def check_innocents(one: VirtualRelay) -> None:
    """All delivered, within the bound, with no attempt used."""
    for event_id in innocents(one):
        row = one.row(event_id)
        assert row.status is Status.DELIVERED, row
        assert (row.attempts, row.last_error) == (0, None)
        assert row.delivered_at is not None
        assert (row.delivered_at - row.created_at).total_seconds() <= BOUND


@pytest.mark.parametrize("place", [0, 50, 99])
@pytest.mark.parametrize("max_in_flight", [4, 800])
def test_one_event_that_the_broker_cuts_on_fails_alone(
    engine: MakeEngine, broker: MemoryPublisher, place: int, max_in_flight: int
) -> None:
    one = engine(broker, max_in_flight=max_in_flight)
    one.insert(place)
    [poison] = one.insert(1, "poison", payload=b"x" * 3_000_000)
    one.insert(99 - place)
    one.run(BOUND)
    check_innocents(one)
    row = one.row(poison)
    assert (row.status, row.attempts) == (Status.PENDING, 1)
    assert row.last_error is not None
    assert row.last_error.startswith("CONNECTION_CUT: 3,000,000 bytes of payload to 'poison'")
    assert one.relay.health.state is RelayState.ACTIVE
    assert broker.connection_cuts <= 5


def test_it_backs_off_and_is_dead_in_the_end_while_others_flow(engine: MakeEngine, broker: MemoryPublisher) -> None:
    one = engine(broker)
    [poison] = one.insert(1, "poison")
    for _ in range(200):
        one.insert(3)
        one.run(1.0)
    row = one.row(poison)
    assert (row.status, row.attempts) == (Status.DEAD, 3)
    assert (row.last_error or "").startswith("CONNECTION_CUT: ")
    one.run(BOUND)
    check_innocents(one)
    # Each later attempt is one cut: the row says that it must go alone.
    assert broker.connection_cuts == 4


def test_many_of_them_among_others(engine: MakeEngine, broker: MemoryPublisher) -> None:
    one = engine(broker)
    for number in range(400):
        one.insert(1, "poison" if number % 10 == 3 else "good")
    one.run(BOUND)
    check_innocents(one)
    assert {row.attempts for row in one.table.rows.values() if row.event_type == "poison"} == {1}


def test_a_steady_stream_of_them_beside_others(engine: MakeEngine, broker: MemoryPublisher) -> None:
    one = engine(broker)
    for _ in range(300):
        one.insert(9)
        one.insert(1, "poison")
        one.run(0.2)
    one.run(BOUND)
    check_innocents(one)


def test_slow_cuts_keep_the_bound(engine: MakeEngine, broker: MemoryPublisher) -> None:
    """As with Kafka, where the client resends before it calls a connection lost."""
    broker.cut_takes = 0.4
    one = engine(broker)
    for _ in range(20):
        one.insert(19)
        one.insert(1, "poison")
        one.run(0.5)
    one.run(BOUND)
    check_innocents(one)


@pytest.mark.parametrize("batch_size", [1, 100])
def test_events_without_an_answer_do_not_hold_up_the_suspects_behind_them(
    engine: MakeEngine, broker: MemoryPublisher, batch_size: int
) -> None:
    broker.answer_with(lambda event: None if event.event_type.startswith("mute") else ACKNOWLEDGED)
    one = engine(broker, batch_size=batch_size)
    for number in range(3):
        one.insert(1, f"mute-{number}")
        one.insert(15)
    one.insert(1, "poison")
    one.run(BOUND)
    assert one.delivered() == 45
    assert {row.attempts for row in one.table.rows.values() if row.event_type != "poison"} == {0}
    assert one.counts()["DELIVERING"] == 3  # they are with the broker still: no answer, and no time-out here


def test_suspects_of_small_batches_are_offered_together(engine: MakeEngine, broker: MemoryPublisher) -> None:
    broker.round_trip = 0.5
    one = engine(broker, batch_size=1, max_in_flight=100)
    one.insert(1, "poison")
    one.insert(90)
    one.run(BOUND)
    check_innocents(one)


def test_more_groups_without_an_answer_than_lanes_are_waited_for(engine: MakeEngine, broker: MemoryPublisher) -> None:
    broker.answer_with(lambda event: None if event.event_type.startswith("mute") else ACKNOWLEDGED)
    one = engine(broker)
    for number in range(2 * LANES):
        one.insert(1, f"mute-{number:02}")
    one.insert(1, "poison")
    one.run(30.0)
    assert one.counts() == {"DELIVERING": 2 * LANES, "PENDING": 1}
    broker.answer_with(lambda _: ACKNOWLEDGED)
    one.do(broker.up)
    one.until(lambda: one.counts().get("DELIVERED") == 2 * LANES, BOUND)


@pytest.mark.parametrize("place", [0, 2, 5])
def test_in_order_per_key_the_others_of_its_key_wait_and_other_keys_flow(
    engine: MakeEngine, broker: MemoryPublisher, place: int
) -> None:
    one = engine(broker, key_order=KeyOrder.SKIP)
    kinds = ["good"] * 6
    kinds[place] = "poison"
    behind = [one.insert(1, kind, partition_key="a")[0] for kind in kinds][place + 1 :]
    for number in range(30):
        one.insert(1, partition_key=f"key-{number}")
    one.run(BOUND)
    assert all(one.row(event_id).status is Status.PENDING for event_id in behind)
    one.run(400.0)
    assert one.counts() == {"DELIVERED": 35, "DEAD": 1}
    assert [event.event_id for event in broker.messages if event.partition_key == "a"][place:] == behind
    assert {row.attempts for row in one.table.rows.values() if row.event_type == "good"} == {0}


def test_a_connection_that_is_cut_once_costs_nothing(engine: MakeEngine, broker: MemoryPublisher) -> None:
    one = engine(broker)
    broker.hold()
    one.insert(500)
    one.until(lambda: len(broker.held) >= 100)
    broker.answer_with(lambda _: ACKNOWLEDGED)
    one.do(broker.cut)
    one.run(1.0)
    check_innocents(one)


def test_a_real_outage_releases_suspects_without_an_attempt(engine: MakeEngine, broker: MemoryPublisher) -> None:
    one = engine(broker, connect_retry_interval=2.0)
    one.insert(50)
    [poison] = one.insert(1, "poison")
    one.insert(52)
    one.until(lambda: broker.connection_cuts == 1)
    one.do(broker.down)
    one.run(20.0)
    assert one.relay.health.state is RelayState.PAUSED
    assert {row.attempts for row in one.table.rows.values()} == {0}
    assert one.relay.inflight.events == 0
    one.do(broker.up)
    one.until(lambda: one.delivered() == 102, BOUND)
    one.until(lambda: one.row(poison).attempts == 1, BOUND)


def test_suspects_wait_for_a_client_that_cannot_be_made(
    engine: MakeEngine, broker: MemoryPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [ConfigError("sslcafile: no such file")] * 3

    async def open_late(publisher: MemoryPublisher) -> None:
        if publisher is not broker and failures:
            raise failures.pop()

    monkeypatch.setattr(MemoryPublisher, "open", open_late)
    one = engine(broker, connect_retry_interval=1.0)
    one.insert(20)
    [poison] = one.insert(1, "poison")
    one.run(BOUND)
    assert not failures
    check_innocents(one)
    assert one.row(poison).attempts == 1


def test_cut_off_alone_while_the_broker_hangs_costs_no_attempt(engine: MakeEngine, broker: MemoryPublisher) -> None:
    one = engine(broker)
    [poison] = one.insert(1, "poison")

    def hang_at_the_second(event: OutboxEvent) -> bool:
        if event.event_id == poison and broker.connection_cuts == 1:
            broker.hang()
        return event.event_id == poison

    broker.cuts(hang_at_the_second)
    one.run(30.0)
    assert one.row(poison).attempts == 0
    assert one.relay.health.state is RelayState.PAUSED


def test_suspects_keep_their_leases(engine: MakeEngine, broker: MemoryPublisher) -> None:
    broker.round_trip = 3.0
    one = engine(broker, lease_timeout=6.0)
    one.insert(60)
    one.insert(1, "poison")
    one.run(60.0)
    assert one.delivered() == 60
    assert one.telemetry.counts["leases_lost"] == 0
    assert one.telemetry.counts["reaped"] == 0


def test_a_cut_on_an_event_without_a_lease_is_not_blamed_on_the_next_suspect(
    engine: MakeEngine, broker: MemoryPublisher
) -> None:
    broker.answer_with(lambda event: None)
    one = engine(broker, lease_timeout=6.0)
    [first] = one.insert(1)
    one.until(lambda: len(broker.offered) == 1)
    one.do(broker.cut)
    one.until(lambda: len(broker.offered) == 2)
    one.row(first).locked_by = "another"
    one.until(lambda: one.telemetry.counts["leases_lost"] == 1)
    [second] = one.insert(1)
    one.until(lambda: len(broker.held) == 1)
    one.do(lambda: broker.cut(on=second))
    one.until(lambda: len(broker.offered) == 4)
    one.do(lambda: broker.cut(on=first))
    one.run(1.0)
    assert (one.row(second).attempts, one.row(second).last_error) == (0, None)


def test_a_stop_releases_suspects(engine: MakeEngine, broker: MemoryPublisher) -> None:
    broker.round_trip = 3.0
    one = engine(broker)
    one.insert(1, "poison")
    one.insert(60)
    one.until(lambda: broker.connection_cuts == 1)
    one.do(one.relay.stop)
    one.run(8.0)
    assert one.task.done()
    assert set(one.counts()) <= {"DELIVERED", "PENDING"}
    assert {row.attempts for row in one.table.rows.values()} <= {0}


def test_suspects_bound_what_is_claimed(engine: MakeEngine, broker: MemoryPublisher) -> None:
    broker.round_trip = 1.0
    broker.cuts(lambda _: True)
    one = engine(broker, batch_size=10, max_in_flight=20)
    one.insert(500)
    one.run(60.0)
    assert one.telemetry.most_in_flight <= 40


def test_two_relays_on_one_table_find_it_each_and_the_others_lose_nothing(
    engine: MakeEngine, broker: MemoryPublisher
) -> None:
    one = engine(broker)
    storage = FaultyOutbox(one.truth, "another", one.seconds, retry=one.options.retry)
    another = Relay(storage, broker.twin(), MemoryTelemetry(), one.options, clock=one.seconds)
    task = one.loop.create_task(another.run())
    for _ in range(100):
        one.insert(20)
        one.insert(1, "poison")
        one.run(0.5)
    one.run(300.0)
    assert not task.done()
    check_innocents(one)
    assert one.counts() == {"DELIVERED": 2000, "DEAD": 100}
    assert {row.attempts for row in one.table.rows.values() if row.event_type == "poison"} == {3}
