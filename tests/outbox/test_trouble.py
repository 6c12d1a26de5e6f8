"""What the adapter does when connections are lost, servers fall silent, and rights are missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from relay.core.errors import SchemaError, StorageBusy, StorageError, StorageUnavailable
from relay.core.event import EventId, Fence
from relay.core.storage import Reaped, Settled, Settlement
from relay.outbox.storage import PostgresOutbox
from relay.outbox.table_check import WRITTEN
from relay.postgres.sql import TableName
from tests.outbox.proxy import Proxy
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import Database
from tests.support.options import storage_options
from tests.support.waiting import eventually, patience

ANY_BYTES = 1 << 40
TERMINATE = """
SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
WHERE application_name LIKE 'openoutbox-relay/%' AND datname = current_database()
"""
WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'openoutbox-relay/relay' AND wait_event_type = 'Lock' AND datname = current_database()
"""

Make = Callable[..., PostgresOutbox]


@pytest.fixture
async def make(outbox: Outbox) -> AsyncIterator[Make]:
    storages: list[PostgresOutbox] = []

    def one(url: str | None = None, timeout: float = 10.0, relay_id: str = "relay") -> PostgresOutbox:
        storages.append(PostgresOutbox(storage_options(url or outbox.relay_url, relay_id, statement_timeout=timeout)))
        return storages[-1]

    yield one
    for storage in storages:
        await storage.close()


async def claim(storage: PostgresOutbox, count: int = 10) -> tuple[Fence, list[EventId]]:
    fence, events, *_ = await storage.claim(count, ANY_BYTES)
    assert fence is not None
    return fence, [event.event_id for event in events]


async def test_idle_connections_that_were_ended_cost_one_error_each_at_most(outbox: Outbox, make: Make) -> None:
    storage = make()
    outbox.insert([Row("t")] * 3)
    fence, ids = await claim(storage, 2)
    await storage.ping()
    await storage.renew(fence, ids)
    assert outbox.database.run(TERMINATE) == [(3,)]
    with pytest.raises(StorageUnavailable):
        await storage.ping()
    fence, ids = await claim(storage, 1)  # the others were opened again without an error of their own
    assert await storage.settle([Settlement(fence, delivered=ids)]) == [Settled(delivered=1)]


@pytest.mark.parametrize("doing", ["claim", "settle", "renew", "reap"])
async def test_a_connection_ended_in_the_middle_of_a_statement(outbox: Outbox, make: Make, doing: str) -> None:
    storage = make()
    outbox.insert([Row("t")] * 2)
    fence, ids = await claim(storage, 1)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "claim": lambda: storage.claim(1, ANY_BYTES),
        "settle": lambda: storage.settle([Settlement(fence, delivered=ids)]),
        "renew": lambda: storage.renew(fence, ids),
        "reap": lambda: storage.reap(10),
    }
    with outbox.database.connect(autocommit=False) as blocker:
        blocker.execute("LOCK TABLE openoutbox_events IN ACCESS EXCLUSIVE MODE")
        task = asyncio.ensure_future(calls[doing]())
        await eventually(lambda: outbox.database.run(WAITING) == [(1,)], what="the statement to wait for the lock")
        outbox.database.run(TERMINATE)
        with pytest.raises(StorageUnavailable):
            await task
    await calls[doing]()
    outbox.check_invariants()


async def test_a_server_that_falls_silent_is_given_up_at_the_deadline(outbox: Outbox, make: Make) -> None:
    async with Proxy(outbox.relay_url) as proxy:
        storage = make(proxy.url, timeout=0.3)
        await storage.ping()
        proxy.swallow()
        for call in (storage.ping(), storage.claim(1, ANY_BYTES), storage.oldest_due_age()):
            with pytest.raises(StorageUnavailable, match="no answer within 0"):
                await call
        proxy.flow()
        storage_again = make(proxy.url)
        await storage_again.ping()
        await storage.close()


async def test_a_cancelled_call_ends_at_once_and_the_next_one_works(outbox: Outbox, make: Make) -> None:
    outbox.insert([Row("t")])
    async with Proxy(outbox.relay_url) as proxy:
        storage = make(proxy.url, timeout=60.0)
        await storage.open()
        _, ids = await claim(storage)
        proxy.swallow()
        began = time.monotonic()
        for call in (storage.claim(1, ANY_BYTES), storage.ping()):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await call
        await storage.close()
        assert time.monotonic() - began < patience(30)
        proxy.flow()
        await storage.ping()
        assert len(ids) == 1


async def test_close_cuts_off_what_still_runs(outbox: Outbox, make: Make) -> None:
    async with Proxy(outbox.relay_url) as proxy:
        storage = make(proxy.url, timeout=60.0)
        await storage.ping()
        proxy.swallow()
        before = proxy.received
        task = asyncio.ensure_future(storage.ping())
        await eventually(lambda: proxy.received > before, what="the statement to be sent")
        await storage.close()
        with pytest.raises(StorageUnavailable):
            await task


def at_commit(fate: str) -> Callable[[bytes], str | None]:
    """Once, when a client sends COMMIT."""
    fates = [fate]
    return lambda data: fates.pop() if b"COMMIT\0" in data and fates else None


@pytest.mark.parametrize("fate", ["lose reply", "lose request"])
async def test_a_renewal_whose_answer_is_lost_is_read_back(outbox: Outbox, make: Make, fate: str) -> None:
    outbox.insert([Row("t")] * 3)
    async with Proxy(outbox.relay_url) as proxy:
        storage = make(proxy.url)
        fence, ids = await claim(storage)
        proxy.watch = at_commit(fate)
        renewal = await storage.renew(fence, ids)
        committed = fate == "lose reply"
        assert (renewal.held if committed else renewal.unchanged) == set(ids)
        assert {locked_at for (locked_at,) in outbox.rows("locked_at")} == {renewal.fence}
        assert (renewal.fence > fence) is committed
        assert await storage.settle([Settlement(renewal.fence, delivered=ids)]) == [Settled(delivered=3)]


async def test_a_renewal_that_cannot_be_read_back_before_the_lease_ends_is_an_error(outbox: Outbox) -> None:
    outbox.insert([Row("t")])
    async with Proxy(outbox.relay_url) as proxy:
        options = storage_options(proxy.url, "relay", lease_timeout=0.5, statement_timeout=0.2)
        storage = PostgresOutbox(options)
        fence, ids = await claim(storage)

        def silence(data: bytes) -> str | None:
            if b"COMMIT\0" in data:
                proxy.swallow()
                return "lose request"
            return None

        proxy.watch = silence
        with pytest.raises(StorageError, match="the lease expired"):
            await storage.renew(fence, ids)
        await storage.close()


async def test_what_settles_together_commits_together(outbox: Outbox, make: Make) -> None:
    storage = make()
    outbox.insert([Row("t")] * 2)
    fence, (good, bad) = await claim(storage)
    outbox.database.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'no' USING ERRCODE = '40001'; END $$"
    )
    outbox.database.run(
        "CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW WHEN (NEW.status = 'DEAD') "
        "EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(StorageBusy):
        await storage.settle([Settlement(fence, delivered=[good], buried=[(bad, "e")])])
    assert outbox.counts() == {"DELIVERING": 2}
    assert await storage.settle([Settlement(fence, delivered=[good, bad])]) == [Settled(delivered=2)]


async def test_a_settle_waits_for_a_locked_table_until_its_deadline(outbox: Outbox, make: Make) -> None:
    storage = make(timeout=0.5)
    outbox.insert([Row("t")])
    fence, ids = await claim(storage)
    with outbox.database.connect(autocommit=False) as blocker:
        blocker.execute("LOCK TABLE openoutbox_events IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StorageUnavailable, match="settling: no answer within"):
            await storage.settle([Settlement(fence, delivered=ids)])
        await eventually(lambda: outbox.database.run(WAITING) == [(0,)], what="the abandoned statement to end")
    assert outbox.counts() == {"DELIVERING": 1}
    assert await storage.settle([Settlement(fence, delivered=ids)]) == [Settled(delivered=1)]


async def test_a_server_that_takes_no_writes_is_unavailable_until_it_does(outbox: Outbox, make: Make) -> None:
    storage = make()
    outbox.insert([Row("t")])
    await storage.ping()
    name = outbox.database.name
    outbox.database.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    reader = make(relay_id="reader")
    with pytest.raises(StorageUnavailable, match="refuses writes"):
        await reader.ping()
    with pytest.raises(StorageUnavailable) as caught:
        await reader.claim(1, ANY_BYTES)
    assert caught.value.sqlstate == "25006"
    with psycopg.connect(outbox.database.admin_url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
    await reader.ping()  # on a new connection: the old one would still refuse
    assert len((await claim(reader))[1]) == 1


async def test_a_missing_table_is_reported_with_what_to_do(database: Database) -> None:
    storage = PostgresOutbox(storage_options(database.url, "relay", TableName("orders", "shop")))
    with pytest.raises(SchemaError, match=r"relay-cli migrate --table shop\.orders"):
        await storage.open()
    with pytest.raises(SchemaError):
        await storage.claim(1, ANY_BYTES)
    await storage.close()


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        ("CREATE VIEW openoutbox_events AS SELECT 1 AS event_id", "a view"),
        ("CREATE TABLE openoutbox_events (event_id uuid) PARTITION BY HASH (event_id)", "a partitioned table"),
        ("CREATE TABLE openoutbox_events (event_id uuid)", "lacks the columns event_type, partition_key"),
    ],
)
async def test_a_table_it_cannot_work_on_is_refused_at_the_start(
    database: Database, make_it: str, message: str
) -> None:
    database.run(make_it)
    storage = PostgresOutbox(storage_options(database.url, "relay"))
    with pytest.raises(SchemaError, match=message):
        await storage.open()
    await storage.close()


@pytest.fixture
def role(outbox: Outbox) -> str:
    """A role with no right at all; its name is the database's."""
    outbox.database.run(f"CREATE ROLE {outbox.database.name} LOGIN")
    outbox.database.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    return outbox.database.name


@pytest.mark.parametrize("columns", ["", f"({', '.join(WRITTEN)})"])
async def test_select_and_update_are_all_the_rights_it_needs(
    outbox: Outbox, role: str, make: Make, columns: str
) -> None:
    url = outbox.url.replace("postgres@", f"{role}@")
    storage = make(url)
    with pytest.raises(SchemaError, match="GRANT SELECT"):
        await storage.open()
    outbox.database.run(f"GRANT SELECT ON openoutbox_events TO {role}")
    with pytest.raises(SchemaError, match="GRANT UPDATE"):
        await storage.open()
    outbox.database.run(f"GRANT UPDATE {columns} ON openoutbox_events TO {role}")
    try:
        await storage.open()
        outbox.insert([Row("t")] * 5)
        fence, ids = await claim(storage, 4)
        fence, *_ = await storage.renew(fence, ids)
        settlement = Settlement(fence, ids[:1], [(ids[1], "e", 1.0)], [(ids[2], "e")], ids[3:])
        assert await storage.settle([settlement]) == [Settled(1, 1, 1, 1)]
        await claim(storage)
        outbox.database.run("UPDATE openoutbox_events SET locked_at = '2020-01-01' WHERE status = 'DELIVERING'")
        assert (await storage.reap(10)).total == 2
        await storage.ping()
        assert (await storage.backlog()).dead == 1
        await storage.close()
    finally:
        outbox.database.run(f"DROP OWNED BY {role}")
        outbox.database.run(f"DROP ROLE {role}")


async def test_times_and_texts_do_not_depend_on_the_database_settings(outbox: Outbox, make: Make) -> None:
    outbox.insert([Row("t\N{SNOWMAN}", partition_key="\N{EURO SIGN}", headers='{"k": "\N{SNOWMAN}"}')])
    for setting in ("timezone = 'America/New_York'", "datestyle = 'German, DMY'", "client_encoding = 'LATIN1'"):
        outbox.database.run(f"ALTER DATABASE {outbox.database.name} SET {setting}")
    storage = make()
    fence, (event,), *_ = await storage.claim(1, ANY_BYTES)
    assert event[1:3] == ("t\N{SNOWMAN}", "\N{EURO SIGN}")
    assert event.headers == '{"k": "\N{SNOWMAN}"}'
    assert fence is not None
    assert await storage.settle([Settlement(fence, delivered=[event.event_id])]) == [Settled(delivered=1)]


async def test_infinite_times_poison_nothing(outbox: Outbox, make: Make) -> None:
    storage = make()
    outbox.insert([Row("t")] * 3)
    outbox.database.run("UPDATE openoutbox_events SET created_at = 'infinity', available_at = '-infinity'")
    assert (await storage.backlog())[2:4] == (0.0, 0.0)
    assert len((await claim(storage))[1]) == 3


async def test_an_expired_lease_of_an_infinite_time_has_an_error_as_any_other(outbox: Outbox, make: Make) -> None:
    storage = make()
    outbox.insert([Row("t")])
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'a', locked_at = '-infinity'")
    await storage.reap(10)
    [(status, attempts, error)] = outbox.rows("status, attempts, last_error")
    assert (status, attempts) == ("PENDING", 1)
    assert error == "LEASE_EXPIRED: lease of a expired; claimed or renewed at -infinity"


async def test_at_most_three_connections_named_after_the_relay(outbox: Outbox, make: Make) -> None:
    storage = make(relay_id="pod-" + "x" * 100)
    outbox.insert([Row("t")] * 200)

    async def work() -> None:
        fence, events, *_ = await storage.claim(5, ANY_BYTES)
        if fence is not None:
            await storage.settle([Settlement(fence, delivered=[event.event_id for event in events])])
        await storage.reap(10)

    await asyncio.gather(*(work() for _ in range(20)))
    names = outbox.database.run(
        "SELECT application_name FROM pg_stat_activity "
        "WHERE application_name LIKE 'openoutbox-relay/%' AND datname = current_database()"
    )
    assert names == [(("openoutbox-relay/pod-" + "x" * 100)[:63],)] * 3


@pytest.mark.parametrize("name", ['Weird "Name%s', "select"])
async def test_it_works_on_a_table_of_any_name(outbox: Outbox, name: str) -> None:
    table = TableName(name, "public")
    with outbox.database.connect() as connection:
        connection.execute(f"ALTER TABLE openoutbox_events RENAME TO {TableName(name).quoted}".encode())
        insert = f"INSERT INTO {table.quoted} (event_id, event_type, payload) SELECT gen_random_uuid(), 't', ''"
        connection.execute(insert.encode())
    storage = PostgresOutbox(storage_options(outbox.url, "relay", table))
    await storage.open()
    fence, ids = await claim(storage)
    assert await storage.settle([Settlement(fence, retried=[(ids[0], "100 %s", 1.0)])]) == [Settled(retried=1)]
    await storage.close()


async def test_it_works_on_the_newest_major(newest_database: Database) -> None:
    outbox = Outbox.create(newest_database)
    storage = PostgresOutbox(storage_options(outbox.relay_url, "relay"))
    await storage.open()
    outbox.insert([Row("t")] * 4)
    fence, ids = await claim(storage)
    fence, held, _ = await storage.renew(fence, ids)
    assert held == set(ids)
    settlement = Settlement(fence, ids[:1], [(ids[1], "e", 1.0)], [(ids[2], "e")], ids[3:])
    assert await storage.settle([settlement]) == [Settled(1, 1, 1, 1)]
    assert (await storage.backlog())[:2] == (1, 1)
    assert await storage.reap(10) == Reaped(0, 0)
    await storage.close()


async def test_what_a_settle_that_was_cut_wrote_is_seen_although_it_is_just_ending(outbox: Outbox) -> None:
    written, left = outbox.insert([Row("t")] * 2)
    storage = PostgresOutbox(storage_options(outbox.relay_url, "relay"))
    claim = await storage.claim(10, 1 << 20)
    assert claim.fence is not None
    settlement = Settlement(claim.fence, delivered=[event.event_id for event in claim.events])
    with outbox.database.connect(autocommit=False) as ending:
        sql = (
            "UPDATE openoutbox_events SET status = 'DELIVERED', locked_by = NULL, locked_at = NULL, "
            "delivered_at = now() WHERE event_id = %s"
        )
        ending.execute(sql, [written])
        reading = asyncio.ensure_future(storage.held([settlement]))
        await asyncio.wait({reading}, timeout=0.1)
        ending.commit()
    assert await reading == [{left}]
    await storage.close()
