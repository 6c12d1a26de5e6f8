"""An event that fails sets its stream aside, in order behind it; all others go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from relay.core.errors import ConfigError
from relay.eventstore import ANY, EventStore, NewEvent, ParkedStream, RetryPolicy, StoredEvent
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.eventstore.test_decoding import BROKEN, INSERT
from tests.eventstore.test_subscription_failures import database_closed
from tests.support.fixtures.postgres import Database
from tests.support.waiting import wait_until_async

QUICK = RetryPolicy(max_attempts=3, base_delay=0.01, max_delay=0.02, jitter=0.0)
OTHERS = [UUID(int=number) for number in range(1, 6)]


class Projection:
    """A handler that writes down what it applies, in the transaction, and fails for some events."""

    def __init__(self) -> None:
        self.poison: set[object] = set()
        self.calls: list[object] = []

    async def __call__(self, event: StoredEvent, connection: psycopg.AsyncConnection[Any]) -> None:
        self.calls.append(event.data)
        await connection.execute(
            "INSERT INTO applied (tenant, stream, version) VALUES (%s, %s, %s)",
            (event.tenant_id, event.stream_id, event.version),
        )
        if event.data in self.poison:
            raise ValueError(f"cannot apply {event.data}")


@pytest.fixture
def applied(database: Database) -> Database:
    database.run(
        "CREATE TABLE applied (number SERIAL, tenant uuid, stream uuid, version int, UNIQUE (tenant, stream, version))"
    )
    return database


def versions(database: Database, stream: UUID, tenant: UUID = TENANT) -> list[int]:
    """What was applied of a stream, in this order."""
    query = "SELECT version FROM applied WHERE (tenant, stream) = (%s, %s) ORDER BY number"
    rows = database.run(query, (tenant, stream))
    return [version for (version,) in rows]


@contextlib.asynccontextmanager
async def processing(store: EventStore, projection: Projection, **options: Any) -> AsyncIterator[None]:
    all_options: dict[str, Any] = {"retry": QUICK, "poll_interval": 0.05, "lease": 1.0} | options
    task = asyncio.create_task(store.process("projection", projection, **all_options))
    try:
        yield
    finally:
        assert not task.done(), task
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def write(store: EventStore, stream: UUID, *bodies: str) -> None:
    for body in bodies:
        await store.append(TENANT, stream, [NewEvent("E", body)], ANY)


async def write_around(store: EventStore) -> None:
    """The second event of STREAM is the one that fails; every other stream has three."""
    await write(store, STREAM, "good")
    for stream in OTHERS:
        await write(store, stream, "a")
    await write(store, STREAM, "poison", "behind")
    for stream in OTHERS:
        await store.append(OTHER_TENANT, stream, [NewEvent("E", "other")], ANY)
        await write(store, stream, "b", "c")


async def holds(database: Database, stream: UUID, expected: list[int]) -> None:
    async def reached() -> bool:
        return versions(database, stream) == expected

    await wait_until_async(reached)


async def parked(store: EventStore, count: int = 1) -> list[ParkedStream]:
    async def reached() -> bool:
        return len(await store.list_parked()) == count

    await wait_until_async(reached)
    return await store.list_parked("projection")


@pytest.mark.parametrize("part", [None, (0, 1)])
async def test_a_failing_event_parks_its_stream_and_the_others_go_on(
    store: EventStore, applied: Database, part: tuple[int, int] | None
) -> None:
    projection = Projection()
    projection.poison = {"poison"}
    await write_around(store)
    async with processing(store, projection, part=part, batch_size=4):
        [stream] = await parked(store)
        newest = (await store.read_all(limit=1000)).position
        await store.wait_until("projection", newest)
        for other in OTHERS:
            assert versions(applied, other) == [1, 2, 3]
            assert versions(applied, other, OTHER_TENANT) == [1]
        assert versions(applied, STREAM) == [1]
        assert stream[:6] == ("projection", TENANT, STREAM, stream.position, 2, 3)
        assert stream.error == "ValueError: cannot apply poison"
        assert not stream.retrying
        assert projection.calls.count("behind") == 0
        await write(store, STREAM, "later")
        await store.wait_until("projection", (await store.read_all(limit=1000)).position)
        assert versions(applied, STREAM) == [1]
        projection.poison.clear()
        assert await store.retry_parked("projection", TENANT, STREAM) == 1
        await holds(applied, STREAM, [1, 2, 3, 4])
        await parked(store, 0)
        await write(store, STREAM, "after")
        await holds(applied, STREAM, [1, 2, 3, 4, 5])
    assert projection.calls.count("after") == 1


async def test_a_skipped_event_is_given_up_and_what_is_behind_it_is_applied(
    gapless_store: EventStore, applied: Database
) -> None:
    store, projection = gapless_store, Projection()
    projection.poison = {"poison"}
    await write_around(store)
    async with processing(store, projection):
        await parked(store)
        await store.skip_parked("projection", TENANT, STREAM)
        await holds(applied, STREAM, [1, 3])
        await parked(store, 0)
    for refused in (store.skip_parked, store.retry_parked):
        with pytest.raises(ConfigError, match="has not parked stream"):
            await refused("projection", TENANT, STREAM)
    assert await store.retry_parked("projection") == 0


async def test_a_stream_that_fails_again_is_parked_where_it_then_is(
    gapless_store: EventStore, applied: Database
) -> None:
    store, projection = gapless_store, Projection()
    projection.poison = {"poison", "worse"}
    await write_around(store)
    await write(store, STREAM, "worse", "end")
    async with processing(store, projection, batch_size=2):
        [first] = await parked(store)
        await store.wait_until("projection", (await store.read_all()).position)
        await store.retry_parked("projection")

        async def again() -> bool:
            [stream] = await store.list_parked()
            return stream.tries == 6 and not stream.retrying

        await wait_until_async(again)
        projection.poison = {"worse"}
        await store.retry_parked("projection")
        await holds(applied, STREAM, [1, 2, 3])

        async def further() -> bool:
            [stream] = await store.list_parked()
            return (stream.version, stream.tries, stream.retrying) == (4, 3, False)

        await wait_until_async(further)
        assert (await store.list_parked())[0].position > first.position
        projection.poison.clear()
        await store.retry_parked("projection")
        await holds(applied, STREAM, [1, 2, 3, 4, 5])


async def test_an_event_that_fails_for_a_while_is_applied_once_and_parks_nothing(
    gapless_store: EventStore, applied: Database
) -> None:
    store, projection = gapless_store, Projection()
    projection.poison = {"poison"}
    await write_around(store)

    async def fails_twice(event: StoredEvent, connection: Any) -> None:
        if projection.calls.count("poison") == 2:
            projection.poison.clear()
        await projection(event, connection)

    async with processing(store, fails_twice):  # type: ignore[arg-type]
        await holds(applied, STREAM, [1, 2, 3])
    assert projection.calls.count("poison") == 3
    assert await store.list_parked() == []


async def test_an_outage_costs_an_event_no_try(
    gapless_store: EventStore, applied: Database, caplog: pytest.LogCaptureFixture
) -> None:
    projection = Projection()
    async with processing(gapless_store, projection):
        await write_around(gapless_store)
        with database_closed(applied):
            await wait_until_async(logged(caplog, "again in"))
        await holds(applied, STREAM, [1, 2, 3])
    assert await gapless_store.list_parked() == []


def logged(caplog: pytest.LogCaptureFixture, text: str) -> Any:
    async def reached() -> bool:
        return text in caplog.text

    return reached


async def test_the_next_instance_knows_what_is_parked(gapless_store: EventStore, applied: Database) -> None:
    store, projection = gapless_store, Projection()
    projection.poison = {"poison"}
    await write_around(store)
    async with processing(store, projection):
        await parked(store)
        await store.wait_until("projection", (await store.read_all()).position)
    assert await store.retry_parked("projection") == 1
    await write(store, STREAM, "meanwhile")
    projection.poison.clear()
    async with processing(store, projection, part=(0, 2)), processing(store, projection, part=(1, 2)):
        await holds(applied, STREAM, [1, 2, 3, 4])


async def test_a_row_that_cannot_be_decoded_is_parked_and_retried_in_the_same_way(
    gapless_store: EventStore, applied: Database
) -> None:
    store, projection = gapless_store, Projection()
    await write(store, STREAM, "good")
    applied.run(INSERT.format(BROKEN["infinite time"]), (TENANT, STREAM, 2))
    await write(store, STREAM, "behind")
    await write(store, OTHERS[0], "other")
    async with processing(store, projection):
        await holds(applied, OTHERS[0], [1])
        [stream] = await store.list_parked("projection")
        assert (stream.version, stream.tries) == (2, 1)
        assert "log_date" in stream.error
        assert versions(applied, STREAM) == [1]
        applied.run(
            "BEGIN; SET LOCAL eventstore.changes = 'allowed'; "
            "UPDATE Event SET LogDate = now() WHERE Version = 2; COMMIT"
        )
        await store.retry_parked("projection", TENANT, STREAM)
        await holds(applied, STREAM, [1, 2, 3])
        await parked(store, 0)


async def test_an_event_that_fails_in_front_of_a_row_that_cannot_be_decoded_is_parked_first(
    gapless_store: EventStore, applied: Database
) -> None:
    store, projection = gapless_store, Projection()
    projection.poison = {"poison"}
    await write(store, OTHERS[0], "before")
    await write(store, STREAM, "good", "poison")
    applied.run(INSERT.format(BROKEN["infinite time"]), (TENANT, STREAM, 3))
    await write(store, OTHERS[0], "other")
    async with processing(store, projection):
        await holds(applied, OTHERS[0], [1, 2])
        [stream] = await parked(store)
        assert (stream.version, stream.error) == (2, "ValueError: cannot apply poison")
        projection.poison.clear()
        await store.retry_parked("projection")
        await holds(applied, STREAM, [1, 2])

        async def further() -> bool:
            return [(one.version, one.retrying) for one in await store.list_parked()] == [(3, False)]

        await wait_until_async(further)
    async with contextlib.aclosing(store.subscribe("by hand", undecodable="set aside")) as batches:
        batch = await anext(batches)
        assert [error.version for error in batch.set_aside] == [3]
        batch.park(batch.events[2], "earlier")
        assert [event.data for event in batch] == ["before", "good", "other"]


async def test_a_consumer_of_batches_parks_in_its_own_transaction(gapless_store: EventStore, applied: Database) -> None:
    store = gapless_store
    await write_around(store)
    batches = store.subscribe("by hand", poll_interval=0.05)
    async with contextlib.aclosing(batches), await applied.connect_async() as connection:
        for outcome in (psycopg.Rollback, None):
            batch = await anext(batches)
            events = list(batch)
            poison = next(event for event in events if event.data == "poison")
            async with connection.transaction():
                batch.park(poison, "not now")
                assert [event for event in events if event not in list(batch)] == [
                    event for event in events if event.stream_id == STREAM and event.version >= 2
                ]
                await batch.acknowledge(connection)
                if outcome is not None:
                    raise outcome()
            assert bool(await store.list_parked()) == (outcome is None)
        await store.retry_parked("by hand")
        batch = await anext(batches)
        assert batch.retried
        assert [event.data for event in batch] == ["poison", "behind"]
        await write(store, STREAM, "new")
        batch = await anext(batches)
        assert not batch.retried
        assert [event.data for event in batch] == ["new"]
        assert await store.list_parked() == []


async def test_what_comes_again_after_a_reset_says_so(store: EventStore, applied: Database) -> None:
    await write_around(store)
    count = len(await store.read_all())
    async with contextlib.aclosing(store.subscribe("reset", batch_size=count - 3, poll_interval=0.05)) as batches:
        first = await anext(batches)
        first.park(first.events[0], "no")
        assert not first.replayed
        second = await anext(batches)
        await write(store, OTHERS[0], "new")
        third = await anext(batches)
        assert [event.data for event in third] == ["new"]
        assert not second.replayed
        assert not third.replayed
        await store.reset_subscription("reset")
        assert await store.list_parked() == []
        again = [await anext(batches), await anext(batches)]
        assert [batch.replayed for batch in again] == [True, True]
        assert [event for batch in again for event in batch] == [*first.events, *second.events]
        assert [event.data for event in await anext(batches)] == ["new"]


async def test_deleting_a_stream_or_a_tenant_forgets_what_is_parked_of_it(
    gapless_store: EventStore, applied: Database
) -> None:
    store, projection = gapless_store, Projection()
    projection.poison = {"poison", "other"}
    await write_around(store)
    async with processing(store, projection):
        await parked(store, 6)
        await store.delete_stream(TENANT, STREAM, confirm=STREAM)
        assert [stream.tenant_id for stream in await store.list_parked()] == [OTHER_TENANT] * 5
        await store.drop_tenant(OTHER_TENANT, confirm=OTHER_TENANT)
        assert await store.list_parked() == []


async def test_new_events_of_a_stream_that_was_parked_and_deleted_are_applied(
    gapless_store: EventStore, applied: Database
) -> None:
    store, projection = gapless_store, Projection()
    projection.poison = {"poison"}
    await write_around(store)
    async with processing(store, projection, poll_interval=600.0):  # it looks at what is parked at its own pace
        await parked(store)
        await write(store, OTHERS[0], "d")
        await holds(applied, OTHERS[0], [1, 2, 3, 4])  # a batch behind the one that parked: the instance knows of it
        await store.delete_stream(TENANT, STREAM, confirm=STREAM)
        await write(store, STREAM, "a new life")
        await holds(applied, STREAM, [1, 4])
