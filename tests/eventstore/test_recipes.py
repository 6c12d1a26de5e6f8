"""The recipes of examples/recipes, as they stand there: killed at every write, cut at any moment, repeated."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from functools import partial
from typing import Any

import psycopg
import pytest

from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, StoredEvent, SubscriptionDeleted, VersionConflict
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.eventstore.recipes import Killer, recipe, running
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually, pace_async, wait_until_async

CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'recipe'"
)


@pytest.fixture
def killer(outbox_database: Database) -> Killer:
    return Killer(outbox_database)


def deposit(cents: int) -> NewEvent:
    return NewEvent("MoneyDeposited", {"cents": cents})


async def test_a_projection_counts_each_event_once_wherever_it_is_killed(
    gapless_store: EventStore, database: Database, killer: Killer
) -> None:
    projection = recipe("projection")
    async with await psycopg.AsyncConnection.connect(database.url) as connection:
        await projection.create(connection, "balances_1")
        await projection.create(connection, "balances_1")
    killer.watch("INSERT ON balances_1", "UPDATE ON event_subscription")
    total = 0
    async with running(projection.serve(killer.url, gapless_store, "balances_1", pause=0)):
        for nth in range(1, 5):  # two writes of a batch of two events, the checkpoint, and none
            killer.kill_at(nth)
            total += nth + 100
            await gapless_store.append(TENANT, STREAM, [deposit(nth), NewEvent("Other"), deposit(100)], ANY)
            await eventually(partial(has_balance, database, "balances_1", total), what=f"{total} cents")
            assert killer.has_killed == (nth < 4)


def balance(database: Database, table: str) -> int:
    return int(database.run(f"SELECT coalesce(sum(cents), 0) FROM {table}")[0][0])


def has_balance(database: Database, table: str, cents: int) -> bool:
    return balance(database, table) == cents


async def test_a_projection_is_rebuilt_beside_the_live_one(gapless_store: EventStore, database: Database) -> None:
    """While events come in, connections are cut and readers look: no balance ever goes back."""
    projection, store, chance = recipe("projection"), gapless_store, random.Random(16)
    url = f"{database.url}?application_name=recipe"
    total, seen = 0, [0]
    async with await psycopg.AsyncConnection.connect(database.url) as connection:
        for name in ("balances_1", "balances_2"):
            await projection.create(connection, name)

        async def write() -> None:
            nonlocal total
            for _ in range(5):
                total += (cents := chance.randrange(1, 100))
                await store.append(TENANT, STREAM, [deposit(cents)], ANY)
            database.run(CUT)

        async def shown(name: str, before: str | None = None) -> None:
            async def done() -> bool:
                seen.append(balance(database, "balances") if before else 0)
                return bool(await projection.show(connection, "balances", name, before))

            await wait_until_async(done, what=f"the view of {name}")
            seen.append(balance(database, "balances"))

        old = projection.serve(url, store, "balances_1", pause=0)
        async with running(old, projection.serve(url, store, "balances_2", pause=0)):
            await write()
            await eventually(lambda: checkpoints(database) == 2, what="both subscriptions")
            await shown("balances_1")
            await write()
            await shown("balances_2", before="balances_1")
            await shown("balances_2", before="balances_1")
            await write()
            await eventually(lambda: balance(database, "balances") == total, what=f"{total} cents")
        assert seen == sorted(seen)
        for _ in range(2):
            await projection.remove(store, connection, "balances_1")
    assert checkpoints(database) == 1
    assert balance(database, "balances") == total


def checkpoints(database: Database) -> int:
    return int(database.run("SELECT count(*) FROM event_subscription")[0][0])


async def test_a_table_that_is_behind_is_not_shown(gapless_store: EventStore, database: Database) -> None:
    projection = recipe("projection")
    await gapless_store.append(TENANT, STREAM, [deposit(1)] * 7, NO_STREAM)
    async with await psycopg.AsyncConnection.connect(database.url) as connection:
        for name, position in (("balances_1", 7), ("balances_2", 6)):
            await projection.create(connection, name)
            await gapless_store.reset_subscription(name, position)
        assert await projection.show(connection, "balances", "balances_1")
        database.run(f"INSERT INTO balances_1 VALUES ('{TENANT}', '{STREAM}', 5)")
        assert not await projection.show(connection, "balances", "balances_2", "balances_1")
        assert balance(database, "balances") == 5
        await gapless_store.reset_subscription("balances_2", 7)
        with database.connect(autocommit=False) as reader:
            reader.execute("SELECT * FROM balances")
            assert not await projection.show(connection, "balances", "balances_2", "balances_1")
        assert await projection.show(connection, "balances", "balances_2", "balances_1")
        assert balance(database, "balances") == 0


async def test_a_removed_projection_ends(gapless_store: EventStore, database: Database) -> None:
    projection = recipe("projection")
    async with await psycopg.AsyncConnection.connect(database.url) as connection:
        await projection.create(connection, "balances_1")
        service = asyncio.create_task(projection.serve(database.url, gapless_store, "balances_1", pause=0))
        await eventually(lambda: checkpoints(database) == 1, what="the subscription")
        await projection.remove(gapless_store, connection, "balances_1")
    with pytest.raises(SubscriptionDeleted):
        await service


class CountingStore:
    """A store that notes from which version its streams were read."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.reads: list[int] = []

    async def read_stream(self, tenant: Any, stream: Any, from_version: int = 1) -> list[StoredEvent]:
        self.reads.append(from_version)
        return await self._store.read_stream(tenant, stream, from_version)


async def test_a_snapshot_shortens_reading_and_changes_nothing(
    gapless_store: EventStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots, store = recipe("snapshots"), CountingStore(gapless_store)
    database.run(snapshots.TABLE)
    account = snapshots.Account
    async with await database.connect_async() as connection:

        async def load() -> tuple[object, int]:
            loaded: tuple[object, int] = await snapshots.load(store, connection, TENANT, STREAM)
            return loaded

        assert await load() == (account(), 0)
        await gapless_store.append(TENANT, STREAM, [NewEvent("AccountOpened", {"owner": "Ada"})], NO_STREAM)
        assert await load() == (account("Ada"), 1)
        await gapless_store.append(TENANT, STREAM, [deposit(1) for _ in range(100)], 1)
        assert await load() == (account("Ada", 100), 101)
        await gapless_store.append(TENANT, STREAM, [NewEvent("MoneyWithdrawn", {"cents": 30})], 101)
        assert await load() == (account("Ada", 70), 102)
        assert store.reads == [1, 1, 1, 101]
        database.run("DELETE FROM account_snapshot")
        assert await load() == (account("Ada", 70), 102)
        monkeypatch.setattr(snapshots, "FORMAT", 2)  # a release whose state has other fields
        assert await load() == (account("Ada", 70), 102)
        assert database.run("SELECT format, version FROM account_snapshot ORDER BY 1") == [(1, 102), (2, 102)]


async def test_a_snapshot_of_another_history_is_passed_over_and_replaced(
    gapless_store: EventStore, database: Database
) -> None:
    snapshots = recipe("snapshots")
    database.run(snapshots.TABLE)
    async with await database.connect_async() as connection:
        for life, cents in enumerate((1, 2)):  # the second life's stream is as long: versions alone do not tell
            await gapless_store.append(TENANT, STREAM, [deposit(cents) for _ in range(101)], NO_STREAM)
            for _ in range(2):
                loaded = await snapshots.load(gapless_store, connection, TENANT, STREAM)
                assert loaded == (snapshots.Account(None, 101 * cents), 101)
            if life == 0:
                await gapless_store.drop_tenant(TENANT, confirm=TENANT)
                await gapless_store.provision_tenant(TENANT)


async def test_events_of_every_format_are_read_in_the_newest(gapless_store: EventStore) -> None:
    upcasting = recipe("upcasting")
    written = [
        NewEvent("MoneyPaidIn", {"amount": "12.50"}),
        NewEvent("MoneyDeposited", {"amount": "0.29"}, {"by": "ada"}),
        upcasting.deposited(7),
        NewEvent("AccountOpened", {"owner": "Ada"}),
    ]
    await gapless_store.append(TENANT, STREAM, written, NO_STREAM)
    events = await upcasting.read(gapless_store, TENANT, STREAM)
    assert [(event.type, event.data) for event in events] == [
        ("MoneyDeposited", {"cents": 1250}),
        ("MoneyDeposited", {"cents": 29}),
        ("MoneyDeposited", {"cents": 7}),
        ("AccountOpened", {"owner": "Ada"}),
    ]
    assert events[1].meta == {"by": "ada", "format": 2}
    assert list(map(upcasting.upcast, events)) == events
    assert [event.version for event in events] == [1, 2, 3, 4]
    for unknown in (NewEvent("MoneyDeposited", {}, {"format": 3}), NewEvent("Unknown")):
        await gapless_store.append(TENANT, uuid.uuid4(), [unknown], NO_STREAM)
        [stored] = await gapless_store.read_all(after=(await gapless_store.read_all())[-1].sequence_num - 1)
        with pytest.raises(ValueError, match=f"position {stored.sequence_num}: {stored.type} has an unknown format"):
            upcasting.upcast(stored)


async def test_a_name_leads_to_one_stream_and_belongs_to_one_account(gapless_store: EventStore) -> None:
    named = recipe("named_streams")
    assert named.stream_id("address", "Zoë") == named.stream_id("address", "Zoe\u0308")
    assert named.stream_id("a", "b/c") != named.stream_id("a/b", "c")
    accounts = [uuid.uuid4() for _ in range(8)]

    async def claimed(tenant: uuid.UUID, account: uuid.UUID) -> uuid.UUID:
        winner: uuid.UUID = await named.claim(gapless_store, tenant, " Ada@Example.org", account)
        return winner

    winners = await asyncio.gather(*(claimed(TENANT, account) for account in accounts))
    assert len(set(winners)) == 1
    assert winners[0] in accounts
    assert await claimed(TENANT, winners[0]) == winners[0]
    loser = next(account for account in accounts if account != winners[0])
    await named.release(gapless_store, TENANT, "ada@example.org", loser)
    assert await claimed(TENANT, loser) == winners[0]
    for _ in range(2):
        await named.release(gapless_store, TENANT, "ada@example.org", winners[0])
    assert await claimed(TENANT, loser) == loser
    assert await claimed(OTHER_TENANT, winners[0]) == winners[0]
    events = await gapless_store.read_stream(TENANT, named.stream_id("address", "ada@example.org"))
    assert [event.type for event in events] == ["AddressClaimed", "AddressReleased", "AddressClaimed"]


async def test_an_order_is_decided_once_wherever_the_process_is_killed(
    store: EventStore, outbox_database: Database, killer: Killer
) -> None:
    """Killed in each write of the decision: two appends, the announcement, the checkpoint; then in none."""
    process, article = recipe("order_process"), uuid.uuid4()
    killer.watch("INSERT ON event", "INSERT ON openoutbox_events", "UPDATE ON event_subscription")
    await store.append(TENANT, article, [NewEvent("StockAdded", {"quantity": 14})], NO_STREAM)
    orders = []
    async with running(process.serve(killer.url, store, pause=0)):
        for nth in range(1, 6):
            killer.kill_at(nth)
            orders.append(await place(store, article, 3))
            await decided(store, orders[-1])
            assert killer.has_killed == (nth < 5)
    answers = [(await store.read_stream(TENANT, order))[1].type for order in orders]
    assert answers == ["OrderConfirmed"] * 4 + ["OrderRejected"]
    stock = await store.read_stream(TENANT, article)
    assert [event.data for event in stock[1:]] == [{"quantity": 3, "order": str(order)} for order in orders[:4]]
    announced = "SELECT partition_key, headers->>'type' FROM openoutbox_events ORDER BY created_at"
    assert sorted(outbox_database.run(announced)) == sorted(zip(map(str, orders), answers, strict=True))


async def place(store: EventStore, article: uuid.UUID, quantity: int) -> uuid.UUID:
    order = uuid.uuid4()
    placed = NewEvent("OrderPlaced", {"article": str(article), "quantity": quantity})
    await store.append(TENANT, order, [placed], NO_STREAM)
    return order


async def decided(store: EventStore, order: uuid.UUID) -> None:
    async def answered() -> bool:
        return len(await store.read_stream(TENANT, order)) > 1

    await wait_until_async(answered, what=f"the decision about {order}")


async def test_orders_are_decided_again_when_another_writer_was_faster(
    store: EventStore, outbox_database: Database
) -> None:
    """Customers cancel and stock comes in while orders are decided; connections are cut: every order has one end."""
    process, article, chance = recipe("order_process"), uuid.uuid4(), random.Random(21)
    url = f"{outbox_database.url}?application_name=recipe"
    await store.append(TENANT, article, [NewEvent("StockAdded", {"quantity": 5})], NO_STREAM)
    orders: list[uuid.UUID] = []

    async def cancel(order: uuid.UUID) -> None:
        await pace_async(chance.uniform(0, 0.02))
        with contextlib.suppress(VersionConflict):  # decided already
            await store.append(TENANT, order, [NewEvent("OrderCancelled")], 1)

    async with running(process.serve(url, store, pause=0)):
        for _ in range(15):
            orders.append(await place(store, article, 1))
            await asyncio.gather(
                cancel(orders[-1]), store.append(TENANT, article, [NewEvent("StockAdded", {"quantity": 1})], ANY)
            )
            if chance.random() < 0.2:
                outbox_database.run(CUT)
        for order in orders:
            await decided(store, order)
    histories = [[event.type for event in await store.read_stream(TENANT, order)] for order in orders]
    assert {len(history) for history in histories} == {2}
    confirmed = [order for order, history in zip(orders, histories, strict=True) if history[1] == "OrderConfirmed"]
    stock = await store.read_stream(TENANT, article)
    reserved = [event.data["order"] for event in stock if event.type == "StockReserved"]  # type: ignore[index]
    assert sorted(reserved) == sorted(map(str, confirmed))
    announced = "SELECT partition_key FROM openoutbox_events WHERE headers->>'type' = 'OrderConfirmed'"
    assert sorted(key for (key,) in outbox_database.run(announced)) == sorted(map(str, confirmed))
