"""The recorder: it never blocks, drops rather than grows, picks up a log that comes back, and ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Acknowledged, Outcome, Permanent, Transient
from relay.core.recorder import AttemptRecorder, SettledAttempt
from relay.deliverylog import DeliveryLog, DeliveryLogUnavailable, ListAttempts, LogEntry, open_delivery_log
from relay.deliverylog.entries import prepare
from relay.deliverylog.log_options import RecorderOptions
from relay.deliverylog.mapping import Naming, log_entry
from relay.deliverylog.memory import MemoryDeliveryLog
from relay.deliverylog.recorder import Recorder
from relay.deliverylog.times import floored, time_near
from relay.localservers.postgres import PostgresServer
from tests.deliverylog.making import all_items
from tests.support.fixtures.postgres import Database
from tests.support.options import recorder_options
from tests.support.waiting import eventually

CLAIMED = Fence(datetime(2026, 3, 10, 12, 0, 0, 250_500, tzinfo=UTC))


def settled(number: int, outcome: Outcome = ACKNOWLEDGED, headers: str = "{}", attempts: int = 2) -> SettledAttempt:
    event = OutboxEvent(EventId(f"e{number:05d}"), "orders", None, b"payload", headers, attempts, 1.5)
    return SettledAttempt(event, outcome, CLAIMED, 0.25)


@asynccontextmanager
async def recording(
    open_store: Callable[[], Awaitable[DeliveryLog]], options: RecorderOptions
) -> AsyncIterator[Recorder]:
    recorder = Recorder(open_store, options)
    recorder.start()
    try:
        yield recorder
    finally:
        await recorder.close()


QUICK = recorder_options(batch_size=10, flush_interval=0.01, retry_interval=0.01)


class StubbornStore(MemoryDeliveryLog):
    """A log that takes nothing for as long as ``refusing`` says, or does not answer at all."""

    def __init__(self, *, refusing: bool = False, hanging: bool = False) -> None:
        super().__init__()
        self.refusing, self.hanging = refusing, hanging
        self.writes = 0

    async def insert_many(self, entries: Sequence[LogEntry]) -> None:
        self.writes += 1
        if self.hanging:
            await asyncio.Event().wait()
        if self.refusing:
            raise DeliveryLogUnavailable("it refuses")
        await super().insert_many(entries)


def opener(store: DeliveryLog) -> Callable[[], Awaitable[DeliveryLog]]:
    async def opened() -> DeliveryLog:
        return store

    return opened


async def test_attempts_arrive_in_batches_and_the_rest_by_the_clock() -> None:
    store = MemoryDeliveryLog()
    async with recording(opener(store), QUICK) as recorder:
        port: AttemptRecorder = recorder
        port.record([settled(n) for n in range(25)])
        await eventually(lambda: recorder.written == 25)
        port.record([settled(99)])
        await eventually(lambda: recorder.written == 26)
    assert len(await all_items(store, ListAttempts())) == 26
    assert (recorder.dropped, recorder.trouble) == (0, "")


async def test_what_is_queued_is_written_at_the_end() -> None:
    store = MemoryDeliveryLog()
    async with recording(opener(store), recorder_options(batch_size=10, flush_interval=3600)) as recorder:
        recorder.record([settled(n) for n in range(34)])
    assert len(await all_items(store, ListAttempts())) == 34
    recorder.record([settled(1)])
    assert recorder.dropped == 1


async def test_a_log_that_hangs_costs_dropped_records_and_nothing_else() -> None:
    store = StubbornStore(hanging=True)
    options = recorder_options(batch_size=10, flush_interval=0.01, queue_size=50, close_timeout=0.2)
    async with recording(opener(store), options) as recorder:
        recorder.record([settled(n) for n in range(10)])
        await eventually(lambda: store.writes == 1)
        for n in range(20):
            recorder.record([settled(n * 10 + i) for i in range(10)])
        assert recorder.dropped == 150
    assert recorder.dropped == 210
    assert recorder.written == 0


async def test_a_write_that_hangs_is_given_up_and_tried_again() -> None:
    store = StubbornStore(hanging=True)
    options = recorder_options(batch_size=10, flush_interval=0.01, write_timeout=0.05, retry_interval=0.01)
    async with recording(opener(store), options) as recorder:
        recorder.record([settled(n) for n in range(10)])
        await eventually(lambda: store.writes >= 3)
        assert "did not answer" in recorder.trouble
        store.hanging = False
        await eventually(lambda: recorder.written == 10)
        assert recorder.trouble == ""


class SilentStore(StubbornStore):
    """A log behind a network that swallows everything: no write ends, and no ping."""

    lost = True

    async def ping(self) -> None:
        if self.lost and self.writes:
            await asyncio.Event().wait()


@pytest.mark.parametrize(("lost", "timeout"), [(True, 0.05), (False, 0.2)])
async def test_a_slow_write_gets_up_to_four_times_the_time_and_a_lost_network_does_not(
    lost: bool, timeout: float
) -> None:
    store = SilentStore(hanging=True)
    store.lost = lost
    options = recorder_options(batch_size=10, flush_interval=0.01, write_timeout=0.05, retry_interval=0.01)
    async with recording(opener(store), options) as recorder:
        recorder.record([settled(n) for n in range(10)])
        await eventually(lambda: store.writes >= 5)
        assert recorder._write_timeout == timeout
        store.hanging = store.lost = False
        await eventually(lambda: recorder.written == 10)
        assert recorder._write_timeout == 0.05


async def test_the_queue_is_bounded_in_bytes_too() -> None:
    """Headers count too: they may be larger than the payload."""
    one = settled(1)
    large = one._replace(event=one.event._replace(headers='{"a": "' + "x" * 10_000 + '"}'))
    size = one.event.size
    assert size > len(one.event.payload)
    recorder = Recorder(opener(MemoryDeliveryLog()), recorder_options(queue_bytes=10 * size))
    recorder.record([settled(n) for n in range(9)])
    recorder.record([large, *(settled(n) for n in range(9, 20))])
    assert recorder.dropped == 12
    roomy = Recorder(opener(MemoryDeliveryLog()), recorder_options(queue_bytes=45_000))
    roomy.record([large] * 9)
    assert roomy.dropped == 5


async def test_quarantined_attempts_are_not_written_and_show_as_degraded() -> None:
    store = MemoryDeliveryLog()
    async with recording(opener(store), QUICK) as recorder:
        recorder.record([settled(1), settled(2, Transient("bad\x00code", "refused"))])
        await eventually(lambda: recorder.quarantined == 1)
        await eventually(lambda: recorder.written == 1)
        assert recorder.trouble == "quarantined 1 of 2 log entries: code holds a NUL or is not valid UTF-8"
        recorder.record([settled(3)])
        await eventually(lambda: recorder.written == 2)
        assert (recorder.quarantined, recorder.trouble) == (1, "")


async def test_a_full_recorder_refuses_until_there_is_room_again() -> None:
    store = StubbornStore(hanging=True)
    options = recorder_options(
        batch_size=10, flush_interval=0.01, queue_size=10, write_timeout=0.05, retry_interval=0.01
    )
    async with recording(opener(store), options) as recorder:
        assert not recorder.refuses(5)
        recorder.record([settled(n) for n in range(10)])
        await eventually(lambda: store.writes >= 1)
        recorder.record([settled(n) for n in range(10, 21)])
        assert (recorder.refuses(5), recorder.refuses(7)) == (True, True)
        assert recorder.dropped == 13
        store.hanging = False
        await eventually(lambda: recorder.written == 20)
        assert not recorder.refuses(5)
    assert recorder.refuses(3)
    assert recorder.dropped == 16


async def test_what_can_never_fit_does_not_shut_the_recorder() -> None:
    recorder = Recorder(opener(MemoryDeliveryLog()), recorder_options(queue_bytes=6))
    recorder.record([settled(1)])
    assert recorder.dropped == 1
    assert not recorder.refuses(1)


class Replays:
    """A record of replays that knows when one event was replayed."""

    def __init__(self, at: datetime | None) -> None:
        self.at = at
        self.requested: list[EventId] = []
        self.closed = False

    async def first_replays(self, event_ids: Sequence[EventId]) -> Mapping[EventId, datetime]:
        self.requested += event_ids
        if self.at is None:
            await asyncio.Event().wait()
        return {EventId("e00001"): self.at} if self.at else {}

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("seconds", "manual"), [(-1, {1}), (0, {1}), (1, set())])
async def test_the_first_attempt_after_a_replay_is_manual(seconds: int, manual: set[int]) -> None:
    store, replays = MemoryDeliveryLog(), Replays(CLAIMED + timedelta(seconds=seconds))
    recorder = Recorder(opener(store), QUICK, replays=replays)
    recorder.start()
    recorder.record([settled(1, attempts=0), settled(1, attempts=1), settled(2, attempts=0)])
    await eventually(lambda: recorder.written == 3)
    await recorder.close()
    records = await all_items(store, ListAttempts())
    assert {record.attempt.attempt_number for record in records if record.attempt.manual} == manual
    assert all(record.attempt.event_id == "e00001" for record in records if record.attempt.manual)
    assert (set(replays.requested), replays.closed) == ({"e00001", "e00002"}, True)


@pytest.mark.parametrize(("attempts", "manual"), [(0, True), (1, False)])
def test_a_copy_that_spark_replayed_needs_no_record_to_be_manual(attempts: int, manual: bool) -> None:
    entry = log_entry(settled(1, headers='{"replay_id": "0197"}', attempts=attempts), NAMING)
    assert entry.attempt.manual is manual


async def test_a_record_of_replays_that_hangs_holds_nothing_up() -> None:
    store, replays = MemoryDeliveryLog(), Replays(None)
    options = recorder_options(batch_size=10, flush_interval=0.01, write_timeout=0.05)
    recorder = Recorder(opener(store), options, replays=replays)
    recorder.start()
    recorder.record([settled(1, attempts=0)])
    await eventually(lambda: recorder.written == 1)
    await recorder.close()
    assert recorder.dropped == 0


async def test_a_log_that_refuses_is_asked_again_until_it_takes_the_same_batch() -> None:
    store = StubbornStore(refusing=True)
    async with recording(opener(store), QUICK) as recorder:
        recorder.record([settled(n) for n in range(10)])
        await eventually(lambda: store.writes >= 3)
        assert recorder.trouble == "it refuses; check DELIVERY_LOG_URL"
        assert recorder.written == 0
        store.refusing = False
        await eventually(lambda: recorder.written == 10)
        assert recorder.trouble == ""
    assert len(await all_items(store, ListAttempts())) == 10


async def test_a_refusing_log_does_not_hold_up_the_end() -> None:
    store = StubbornStore(refusing=True)
    async with recording(opener(store), QUICK) as recorder:
        recorder.record([settled(n) for n in range(30)])
        await eventually(lambda: store.writes >= 1)
    assert recorder.dropped == 30


async def test_only_failures_if_asked() -> None:
    store = MemoryDeliveryLog()
    async with recording(opener(store), recorder_options(flush_interval=0.01, failed_only=True)) as recorder:
        recorder.record([settled(1), settled(2, Transient("T", "why")), settled(3)])
        await eventually(lambda: recorder.written == 1)
    (record,) = await all_items(store, ListAttempts())
    assert (record.attempt.event_id, record.attempt.status) == ("e00002", "failed")


async def test_a_log_database_that_restarts_is_picked_up_again(own_postgres: PostgresServer) -> None:
    url = own_postgres.url
    options = recorder_options(batch_size=10, flush_interval=0.01, retry_interval=0.05, write_timeout=5)
    async with recording(lambda: open_delivery_log(url, months_ahead=0), options) as recorder:
        recorder.record([settled(n) for n in range(10)])
        await eventually(lambda: recorder.written == 10)
        own_postgres.stop()
        recorder.record([settled(n) for n in range(10, 30)])
        await eventually(lambda: recorder.trouble != "")
        own_postgres.start()
        await eventually(lambda: recorder.written == 30)
        assert recorder.trouble == ""
    store = await open_delivery_log(url)
    assert len({record.attempt.event_id for record in await all_items(store, ListAttempts())}) == 30
    await store.close()


async def test_a_log_without_tables_gets_them(database: Database) -> None:
    async with recording(lambda: open_delivery_log(database.url, months_ahead=0), QUICK) as recorder:
        recorder.record([settled(n) for n in range(3)])
        await eventually(lambda: recorder.written == 3)
        months = database.run("SELECT count(*) FROM pg_class WHERE relname ~ '^attempts_[0-9]{4}_[0-9]{2}$'")
        assert months[0][0] >= 1


async def test_the_recorder_makes_the_months_to_come(database: Database) -> None:
    store = await open_delivery_log(database.url, months_ahead=0)
    await store.migrate()
    await store.close()
    months = "SELECT count(*) FROM pg_class WHERE relname ~ '^(attempts|events|event_destinations)_[0-9]{4}_[0-9]{2}$'"
    assert database.run(months) == [(3,)]
    async with recording(lambda: open_delivery_log(database.url, months_ahead=2), QUICK):
        await eventually(lambda: database.run(months) == [(9,)])


NAMING = Naming(tenant_header="x-tenant", destination_id="main", destination_type="kafka")


def test_of_several_destinations_the_log_names_the_one_that_the_event_goes_to() -> None:
    naming = replace(NAMING, destination_of=lambda event: (f"for {event.event_type}", "redis"))
    entry = log_entry(settled(1), naming)
    assert entry.event.matched_destination_ids == ["for orders"]
    assert (entry.attempt.destination_id, entry.attempt.destination_type) == ("for orders", "redis")


def test_the_mapping_of_a_delivery() -> None:
    entry = log_entry(
        settled(1, Acknowledged({"partition": 3, "offset": 9}), headers='{"x-tenant": "acme", "n": 1.50}'), NAMING
    )
    event, attempt = entry.event, entry.attempt
    assert event.time == CLAIMED - timedelta(seconds=1.5)
    assert (event.id, event.topic, event.tenant_id, event.data) == ("e00001", "orders", "acme", b"payload")
    assert event.metadata == {"x-tenant": "acme", "n": "1.50"}
    assert (event.matched_destination_ids, event.destination_id) == (["main"], "")
    assert event.eligible_for_retry
    assert attempt.time == CLAIMED + timedelta(seconds=0.25)
    [row], _ = prepare([entry])
    assert row.event_time == floored(CLAIMED - timedelta(seconds=1.5))
    assert row.time == datetime(2026, 3, 10, 12, 0, 0, 500_000, tzinfo=UTC)
    assert (attempt.destination_id, attempt.destination_type, attempt.tenant_id) == ("main", "kafka", "acme")
    assert (attempt.status, attempt.code, attempt.attempt_number, attempt.manual) == ("success", None, 3, False)
    assert attempt.response_data == {"partition": 3, "offset": 9}
    window = time_near(attempt.id)
    assert window is not None
    assert window[0] < attempt.time < window[1]


@pytest.mark.parametrize(
    ("outcome", "eligible"), [(Transient("LEADER", "moved"), True), (Permanent("LEADER", "moved"), False)]
)
def test_the_mapping_of_a_failure(outcome: Outcome, eligible: bool) -> None:
    entry = log_entry(settled(1, outcome, attempts=0), NAMING, {EventId("e00001"): CLAIMED})
    assert (entry.attempt.status, entry.attempt.code, entry.attempt.manual) == ("failed", "LEADER", True)
    assert entry.attempt.response_data == {"reason": "moved"}
    assert (entry.event.eligible_for_retry, entry.event.tenant_id) == (eligible, "")
