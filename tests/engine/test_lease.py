"""Leases are renewed in time, a refused renewal costs one event, and expired ones are taken back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from relay.core.errors import StorageUnavailable
from relay.core.event import EventId, Fence, Status
from relay.core.outcome import ACKNOWLEDGED
from relay.core.storage import Renewal, Settled, Settlement
from relay.core.telemetry import RelayState
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryRow
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep


def refuse_renewals(before: MemoryRow, after: MemoryRow) -> str | None:
    """Of events of type ``bad``."""
    renewal = before.status is after.status is Status.DELIVERING
    return "trigger" if renewal and after.event_type == "bad" else None


def refuse_all(_before: MemoryRow, after: MemoryRow) -> str | None:
    """CHECK (event_type <> 'bad') NOT VALID."""
    return "check constraint" if after.event_type == "bad" else None


def holding(engine: MakeEngine, count: int, **options: object) -> VirtualRelay:
    """A relay whose broker has not answered for that many events."""
    one = engine(**({"lease_timeout": 6.0} | options))
    one.broker.hold()
    one.insert(count)
    one.until(lambda: len(one.broker.held) == count)
    return one


def expire(one: VirtualRelay, count: int, event_type: str = "good", attempts: int = 0) -> None:
    """Insert events whose lease, of a relay that is gone, has expired."""
    for event_id in one.insert(count, event_type, attempts=attempts):
        row = one.row(event_id)
        row.status, row.locked_by = Status.DELIVERING, "gone"
        row.locked_at = one.table.now.replace(year=2029)


def test_a_lease_is_renewed_after_a_third_of_it_and_not_before(engine: MakeEngine) -> None:
    one = holding(engine, 3)
    one.run(1.9)
    assert one.telemetry.ops["renew", True] == 0
    one.run(0.5)
    assert one.telemetry.ops["renew", True] == 1
    one.run(30.0)
    assert {row.attempts for row in one.table.rows.values()} == {0}
    one.do(one.broker.answer)
    one.run(1.0)
    assert one.counts() == {"DELIVERED": 3}
    assert one.telemetry.counts["leases_lost"] == 0


def test_a_lease_that_was_lost_is_noticed_by_the_renewal(engine: MakeEngine) -> None:
    one = holding(engine, 3)
    lost = next(iter(one.table.rows.values()))
    lost.locked_by = "another"
    one.run(3.0)
    assert one.telemetry.counts["leases_lost"] == 1
    assert one.relay.inflight.events == 2
    one.do(one.broker.answer)
    one.run(1.0)
    assert one.delivered() == 2
    assert lost.status is Status.DELIVERING


def test_what_is_given_up_during_a_renewal_is_not_lost_a_second_time(engine: MakeEngine) -> None:
    one = engine(MemoryPublisher(capacity=5), lease_timeout=6.0, max_in_flight=20, batch_size=5)
    one.broker.hold()
    one.insert(14)
    # The second batch waits for room in the client, the third for its turn.
    one.until(lambda: one.relay.inflight.events == 14)
    renew = one.storage.renew

    async def renew_the_third_late(fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        if len(event_ids) == 4:
            await virtual_sleep(8.0)
        return await renew(fence, event_ids)

    one.storage.renew = renew_the_third_late  # type: ignore[method-assign]
    one.run(6.5)
    for row in one.table.rows.values():
        row.locked_by = "another"
    for _ in range(3):
        one.do(one.broker.answer)
        one.run(0.2)
    one.run(20.0)
    assert one.telemetry.counts["leases_lost"] == 14
    assert one.relay.inflight.events == sum(map(len, one.relay.inflight.batches))


def test_what_was_renewed_before_the_database_went_away_keeps_its_new_fence(engine: MakeEngine) -> None:
    """It is renewed in parts because of a refused row; of the first part a row is locked; the second has no answer."""
    one = engine(lease_timeout=6.0)
    one.broker.hold()
    one.table.trigger = refuse_renewals
    ids = [*one.insert(7), *one.insert(1, "bad")]
    one.until(lambda: len(one.broker.held) == 8)
    one.table.locked.add(ids[0])
    renew, parts = one.storage.renew, []

    async def only_the_first_part(fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        parts.append(event_ids)
        if len(parts) == 3:
            raise StorageUnavailable("away")
        return await renew(fence, event_ids)

    one.storage.renew = only_the_first_part  # type: ignore[method-assign]
    one.until(lambda: len(parts) == 3)
    assert [len(part) for part in parts] == [8, 2, 2]
    one.table.locked.clear()
    one.do(one.broker.answer)
    one.run(1.0)
    assert one.counts() == {"DELIVERED": 8}
    assert one.telemetry.counts["leases_lost"] == 0


def test_a_settle_and_a_renewal_of_one_batch_never_overlap(engine: MakeEngine) -> None:
    one = engine(lease_timeout=6.0)
    under_way: set[str] = set()
    for op in ("settle", "renew"):
        one_statement = getattr(one.storage, op)

        async def alone(*arguments: object, op: str = op, work: object = one_statement) -> object:
            assert not under_way, f"{op} while {under_way} is under way"
            under_way.add(op)
            await virtual_sleep(0.4)
            try:
                return await work(*arguments)  # type: ignore[operator]
            finally:
                under_way.clear()

        setattr(one.storage, op, alone)
    one.broker.hold()
    one.insert(100)
    one.until(lambda: len(one.broker.held) == 100)
    while one.broker.held:
        one.do(lambda: one.broker.answer(ACKNOWLEDGED, one.broker.held[0].event_id))
        one.run(0.1)
    one.run(1.0)
    assert one.counts() == {"DELIVERED": 100}
    assert one.telemetry.ops["renew", True] >= 3
    assert one.telemetry.counts["leases_lost"] == 0


def test_outcomes_that_come_during_a_renewal_are_settled_after_it(engine: MakeEngine) -> None:
    one = holding(engine, 3)
    renew, settle = one.storage.renew, one.storage.settle
    order: list[str] = []

    async def slow_renew(fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        order.append("renew")
        await virtual_sleep(0.4)
        order.append("renewed")
        return await renew(fence, event_ids)

    async def noted_settle(settlements: Sequence[Settlement]) -> list[Settled]:
        order.append("settle")
        return await settle(settlements)

    one.storage.renew = slow_renew  # type: ignore[method-assign]
    one.storage.settle = noted_settle  # type: ignore[method-assign]
    one.until(lambda: order)
    one.do(one.broker.answer)
    one.until(lambda: one.delivered() == 3)
    assert order == ["renew", "renewed", "settle"]


def test_a_lease_that_ran_out_while_the_database_was_away_is_given_up_not_settled(engine: MakeEngine) -> None:
    one = holding(engine, 3)
    one.fail("renew", Fault.SILENT)
    one.fail("ping", *[Fault.AWAY] * 10)
    one.until(lambda: one.broker.abandons, 30)
    assert one.broker.abandons == ["the lease ran out while the database could not be reached"]
    assert not one.broker.held
    assert one.telemetry.counts["released"] == 0


def test_after_an_outage_outcomes_are_settled_then_leases_renewed_then_expired_ones_reaped(engine: MakeEngine) -> None:
    one = holding(engine, 2, lease_timeout=40.0)
    order: list[str] = []
    for op in ("settle", "renew", "reap"):
        one_statement = getattr(one.storage, op)

        async def note(*arguments: object, op: str = op, work: object = one_statement) -> object:
            order.append(op)
            return await work(*arguments)  # type: ignore[operator]

        setattr(one.storage, op, note)
    one.until(lambda: one.relay.health.may_reap)
    one.fail("ping", *[Fault.AWAY] * 4)
    one.fail("settle", Fault.AWAY)
    one.until(lambda: one.relay.health.storage_error, 20)
    order.clear()
    one.do(lambda: one.broker.answer(ACKNOWLEDGED, one.broker.held[0].event_id))
    one.until(lambda: "reap" in order, 30)
    kinds = list(dict.fromkeys(order))
    assert kinds == ["settle", "renew", "reap"]


def test_a_refused_renewal_costs_the_other_events_nothing(engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    one = engine(lease_timeout=6.0)
    one.broker.hold()
    one.table.trigger = refuse_renewals
    one.insert(50)
    [bad] = one.insert(1, "bad")
    one.insert(49)
    one.until(lambda: len(one.broker.held) == 100)
    one.run(20.0)
    good = [row for row in one.table.rows.values() if row.event_type == "good"]
    assert {(row.status, row.attempts) for row in good} == {(Status.DELIVERING, 0)}
    assert one.row(bad).attempts == 1  # its lease expired, once
    assert not one.broker.abandons
    assert one.relay.health.state is RelayState.ACTIVE
    assert any(bad in record.getMessage() for record in caplog.records if record.action == "renewal_refused")  # type: ignore[attr-defined]
    one.do(one.broker.answer)
    one.run(1.0)
    assert one.delivered() == 99
    assert one.telemetry.counts["leases_lost"] == 1


def test_an_event_whose_renewal_is_refused_is_let_go_when_its_lease_ends(engine: MakeEngine) -> None:
    one = engine(lease_timeout=6.0)
    one.broker.hold()
    one.insert(3)
    one.insert(1, "bad")
    one.until(lambda: len(one.broker.held) == 4)
    one.table.trigger = refuse_all  # so it is not taken back either, and no renewal finds that it is lost
    one.run(5.5)
    assert one.relay.inflight.events == 4
    one.run(1.0)
    assert one.relay.inflight.events == 3
    assert one.telemetry.counts["leases_lost"] == 1


def test_events_renewed_in_parts_are_settled_under_their_own_fences(engine: MakeEngine) -> None:
    one = engine(lease_timeout=6.0)
    one.broker.hold()
    one.table.trigger = refuse_renewals
    one.insert(10)
    one.insert(3, "bad")
    one.until(lambda: len(one.broker.held) == 13)
    one.run(3.0)
    one.do(one.broker.answer)
    one.run(1.0)
    assert one.counts() == {"DELIVERED": 13}
    assert one.telemetry.counts["leases_lost"] == 0


def test_expired_leases_are_taken_back_without_pause_as_failed_attempts(engine: MakeEngine) -> None:
    one = engine(reap_batch_size=10)
    one.broker.down()
    expire(one, 95)
    expire(one, 5, attempts=2)
    one.until(lambda: one.telemetry.counts["reaped"] == 100, 10)
    assert one.telemetry.ops["reap", True] <= 12
    assert one.counts() == {"PENDING": 95, "DEAD": 5}


def test_a_row_that_refuses_to_be_taken_back_does_not_hold_up_those_before_it(engine: MakeEngine) -> None:
    one = engine()
    one.broker.down()
    expire(one, 30)
    expire(one, 1, "bad")
    expire(one, 30, "behind")
    one.table.trigger = refuse_all
    one.until(lambda: one.telemetry.counts["reaped"] == 60, 15)
    one.table.trigger = None
    one.until(lambda: one.telemetry.counts["reaped"] == 61, 60)
