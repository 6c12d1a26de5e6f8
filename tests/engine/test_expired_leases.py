"""An expired lease: what its holder had published is settled under the holder's fence, and only the rest is reaped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest

from relay.core.errors import BrokerUnreachable
from relay.core.event import EventId, Fence, OutboxEvent, Status
from relay.core.outcome import OutcomeSink
from relay.core.proofs import HeldLeases, LeasedRow, Proofs, Proven
from relay.core.telemetry import RelayState
from relay.engine.context import EngineContext
from relay.engine.expired_leases import Finder
from tests.support.doubles.asked_storage import AskedMemoryOutbox
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryRow, MemoryTable
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.options import engine_options

LEASE = 30.0


class MemoryProofs(MemoryPublisher, Proofs):
    """A broker that has the proofs which a test puts there."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.known: set[EventId] = set()
        self.in_part: dict[EventId, str] = {}
        self.ended_former = False
        self.unread = ""
        self.kept = True
        self.meanwhile: Callable[[], None] = lambda: None

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        raise NotImplementedError

    async def former_ended(self) -> bool:
        return self.ended_former

    def beside(self, relays: Sequence[str] | None) -> None:
        raise NotImplementedError

    async def keeps_proofs(self) -> bool:
        return self.kept

    async def end_holder(self, holder: str) -> None:
        self.steps.append(f"end {holder}")

    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        if self.unread:
            raise BrokerUnreachable(self.unread)
        self.steps.append("read")
        self.meanwhile()
        proven = {**dict.fromkeys(self.known, ""), **self.in_part}
        return {row: proven[row.event_id] for row in rows if row.event_id in proven}


class Found:
    """A relay that finds what another one, ``dead``, held."""

    def __init__(self) -> None:
        self.table = MemoryTable()
        self.dead = AskedMemoryOutbox(self.table, "dead", LEASE)
        self.storage = AskedMemoryOutbox(self.table, "finder", LEASE)
        self.proofs = MemoryProofs()
        self.telemetry = MemoryTelemetry()
        self.now = 0.0
        options = engine_options(lease_timeout=LEASE, reap_batch_size=2)
        self.context = EngineContext(self.storage, self.proofs, self.telemetry, options, lambda: self.now)
        self.context.health.storage_worked("open")
        self.context.health.broker_worked()
        self.finder = Finder(self.context, self.proofs)

    async def expired(self, count: int) -> list[EventId]:
        """Events of ``dead`` whose lease has run out."""
        ids = [self.table.insert() for _ in range(count)]
        await self.dead.claim(100, 1 << 30)
        self.pass_time(LEASE + 1)
        return ids

    def pass_time(self, seconds: float) -> None:
        self.table.advance(seconds)
        self.now += seconds

    async def round(self) -> int:
        """Go over all that has expired; how many leases were reaped."""
        reaped = 0
        while (one := await self.finder.reap(2)).more:
            reaped += one.total
        return reaped

    def statuses(self, ids: Sequence[EventId]) -> list[Status]:
        return [self.table.rows[one].status for one in ids]


@pytest.fixture
def found() -> Found:
    return Found()


async def test_what_is_proven_is_delivered_and_the_rest_is_reaped(found: Found) -> None:
    ids = await found.expired(5)
    found.proofs.known = {ids[0], ids[3], ids[4]}
    assert await found.round() == 2
    assert found.statuses(ids) == [Status.DELIVERED, Status.PENDING, Status.PENDING, Status.DELIVERED, Status.DELIVERED]
    assert [found.table.rows[one].attempts for one in ids] == [0, 1, 1, 0, 0]


async def test_a_proof_of_one_of_several_destinations_is_written_down_for_the_others(
    found: Found,
) -> None:
    ids = await found.expired(4)
    found.table.rows[ids[1]].acknowledged_by = "cache"
    found.proofs.known = {ids[0]}
    found.proofs.in_part = {ids[1]: "kafka", ids[2]: "kafka"}
    assert await found.round() == 3
    assert found.statuses(ids) == [Status.DELIVERED, *[Status.PENDING] * 3]
    assert [found.table.rows[one].acknowledged_by for one in ids] == [None, "cache,kafka", "kafka", None]


async def test_the_holder_is_ended_before_proofs_are_read_and_once(found: Found) -> None:
    await found.expired(5)
    await found.round()
    assert found.proofs.steps == ["end dead", "read", "read", "read"]
    found.proofs.steps.clear()
    found.table.rows.clear()
    await found.expired(1)  # claimed after it was ended: that says nothing about this one
    await found.round()
    assert found.proofs.steps == ["end dead", "read"]


async def test_a_holder_is_not_ended_again_within_a_lease(found: Found) -> None:
    await found.expired(1)
    await found.round()
    found.proofs.steps.clear()
    [late] = await found.expired(1)
    found.now -= LEASE  # by this relay's clock no lease has passed
    assert await found.round() == 0
    assert (found.proofs.steps, found.statuses([late])) == ([], [Status.DELIVERING])


async def test_a_lease_that_is_renewed_meanwhile_is_neither_settled_nor_reaped(found: Found) -> None:
    ids = await found.expired(2)
    found.proofs.known = {ids[0]}
    fence = found.table.rows[ids[0]].locked_at
    assert fence is not None

    def renew() -> None:
        for one in ids:
            found.table.rows[one].locked_at = found.table.now

    found.proofs.meanwhile = renew
    assert await found.round() == 0
    assert found.statuses(ids) == [Status.DELIVERING] * 2


async def test_expired_leases_wait_while_proofs_cannot_be_read_and_the_state_says_so(found: Found) -> None:
    ids = await found.expired(3)
    found.proofs.unread = "no answer"
    assert await found.round() == 0
    assert found.statuses(ids) == [Status.DELIVERING] * 3
    state, reason = found.telemetry.states[-1]
    assert state is RelayState.PAUSED
    assert "expired leases wait" in reason
    assert "no answer" in reason
    found.proofs.unread = ""
    assert await found.round() == 3
    assert found.context.health.state is RelayState.ACTIVE


async def test_without_a_place_for_proofs_nothing_is_asked(found: Found) -> None:
    ids = await found.expired(3)
    found.proofs.kept = False
    assert (await found.finder.reap(10)).total == 3
    assert (found.proofs.steps, found.statuses(ids)) == ([], [Status.PENDING] * 3)


async def test_a_proven_row_that_the_database_refuses_is_not_reaped_and_holds_up_no_other(
    found: Found, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await found.expired(4)
    found.proofs.known = {*ids}

    def refuse(before: MemoryRow, after: MemoryRow) -> str | None:
        refused = before.event_id == ids[1] and after.status is Status.DELIVERED
        return "a trigger" if refused else None

    found.table.trigger = refuse
    with caplog.at_level(logging.WARNING):
        assert await found.round() == 0
    statuses = [Status.DELIVERED, Status.DELIVERING, Status.DELIVERED, Status.DELIVERED]
    assert found.statuses(ids) == statuses


async def test_a_lease_of_no_relay_is_reaped_without_ending_anything(found: Found) -> None:
    [one] = await found.expired(1)
    found.table.rows[one].locked_by = None
    assert await found.round() == 1
    assert found.proofs.steps == ["read"]


async def test_the_fence_of_a_listed_row_is_the_rows_own(found: Found) -> None:
    [one] = await found.expired(1)
    listed = await found.storage.expired(10, first=True)
    locked_at = found.table.rows[one].locked_at
    assert locked_at is not None
    assert listed.rows == [LeasedRow("dead", Fence(locked_at), one)]


async def test_what_a_former_life_left_is_taken_back_as_soon_as_that_has_ended(
    found: Found,
) -> None:
    ids = [found.table.insert() for _ in range(4)]
    former = AskedMemoryOutbox(found.table, "finder", LEASE)
    await former.claim(3, 1 << 30)
    await found.finder.begin()
    await found.storage.claim(1, 1 << 30)  # of this life
    found.proofs.known = {ids[0]}
    found.proofs.in_part = {ids[1]: "kafka"}
    assert await found.round() == 0
    assert (found.statuses(ids), found.finder.in_haste) == ([Status.DELIVERING] * 4, True)
    found.proofs.ended_former = True
    assert await found.round() == 2
    assert found.statuses(ids) == [Status.DELIVERED, Status.PENDING, Status.PENDING, Status.DELIVERING]
    assert [found.table.rows[one].attempts for one in ids] == [0, 1, 1, 0]
    assert found.table.rows[ids[1]].acknowledged_by == "kafka"
    assert (found.proofs.steps, found.finder.in_haste) == (["read", "read"], False)


async def test_what_a_former_life_left_waits_while_its_proofs_cannot_be_read(found: Found) -> None:
    [one] = [found.table.insert()]
    await AskedMemoryOutbox(found.table, "finder", LEASE).claim(1, 1 << 30)
    await found.finder.begin()
    found.proofs.ended_former, found.proofs.unread = True, "no answer"
    assert await found.round() == 0
    assert found.statuses([one]) == [Status.DELIVERING]
    assert found.context.health.state is RelayState.PAUSED
    found.proofs.unread = ""
    assert await found.round() == 1


async def test_where_a_former_life_cannot_be_ended_its_leases_expire(found: Found) -> None:
    [one] = [found.table.insert()]
    await AskedMemoryOutbox(found.table, "finder", LEASE).claim(1, 1 << 30)
    await found.finder.begin()
    found.pass_time(LEASE + 1)
    assert await found.round() == 1
    assert (found.statuses([one]), found.proofs.steps) == ([Status.PENDING], ["end finder", "read"])
    assert not found.finder.in_haste
