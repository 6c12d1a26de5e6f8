"""A statement past its deadline leaves nothing behind on the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from relay.core.errors import RowRefused, StorageUnavailable
from relay.postgres.connect import Connection, DeadlineConnection, Generation, connect, connect_async
from relay.postgres.url import connection_parameters
from tests.outbox.proxy import Proxy
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually

NAME = "openoutbox-test"
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
WAITING = f"{BACKENDS} AND wait_event_type = 'Lock'"

Work = Callable[[Connection], Awaitable[object]]


@pytest.fixture
def table(database: Database) -> Database:
    """A database with a table ``t``, empty."""
    database.run("CREATE TABLE t (n int)")
    return database


@pytest.fixture
async def overdue(table: Database) -> AsyncIterator[DeadlineConnection]:
    """A connection whose deadline is over soon."""
    connection = DeadlineConnection(connection_parameters(table.url, NAME), 0.5, Generation())
    yield connection
    await connection.close()


async def one_statement(connection: Connection) -> None:
    await connection.execute("INSERT INTO t VALUES (1)")


async def a_transaction(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT 1")
        await connection.execute("INSERT INTO t VALUES (1)")


async def a_pipeline(connection: Connection) -> None:
    async with connection.pipeline():
        await connection.execute("SELECT 1")
        await connection.execute("INSERT INTO t VALUES (1)")
        await connection.execute("INSERT INTO t VALUES (2)")


async def two_statements(connection: Connection) -> None:
    await connection.execute("INSERT INTO t VALUES (1)")
    await connection.execute("INSERT INTO t VALUES (2)")


def backends(table: Database) -> int:
    """How many backends of ours there are, whatever they do."""
    with psycopg.connect(table.url, autocommit=True) as observer:
        row = observer.execute(BACKENDS, [NAME]).fetchone()
    assert row is not None
    return int(row[0])


def waiting(table: Database) -> bool:
    """Whether a backend of ours waits for a lock."""
    return table.run(WAITING, [NAME]) == [(1,)]


@pytest.mark.parametrize("work", [one_statement, a_transaction, a_pipeline, two_statements])
async def test_a_statement_that_waits_for_a_lock_is_cancelled_at_its_deadline(
    table: Database, overdue: DeadlineConnection, work: Work
) -> None:
    with table.connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StorageUnavailable, match="writing: no answer within"):
            await overdue.run("writing", work)
        await eventually(lambda: backends(table) == 0, what="the abandoned backend to end while the lock is held")
    assert table.run("SELECT n FROM t") == []
    await overdue.run("writing", one_statement)
    assert table.run("SELECT n FROM t") == [(1,)]


async def test_a_statement_whose_task_is_cancelled_is_cancelled_too(table: Database) -> None:
    connection = DeadlineConnection(connection_parameters(table.url, NAME), 60.0, Generation())
    with table.connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        task = asyncio.create_task(connection.run("writing", one_statement))
        await eventually(lambda: waiting(table), what="the statement to wait")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await eventually(lambda: backends(table) == 0, what="the abandoned backend to end while the lock is held")
    assert table.run("SELECT n FROM t") == []
    await connection.close()


async def backend(connection: Connection) -> int:
    return connection.info.backend_pid


@pytest.mark.parametrize("state", ["57P01", "08006", "25P03"])
async def test_the_state_of_a_lost_connection_that_a_trigger_raises_costs_no_connection(
    database: Database, state: str
) -> None:
    generation = Generation()
    connection = DeadlineConnection(connection_parameters(database.url, NAME), 60.0, generation)

    async def refused(connection: Connection) -> None:
        await connection.execute(f"DO $$ BEGIN RAISE 'no' USING ERRCODE = '{state}'; END $$".encode())

    before = await connection.run("asking", backend)
    with pytest.raises(StorageUnavailable, match=state):
        await connection.run("writing", refused)
    assert (await connection.run("asking", backend), generation.number) == (before, 0)
    await connection.close()


async def test_a_connection_that_the_server_ends_makes_all_of_them_outdated(database: Database) -> None:
    generation = Generation()
    connection = DeadlineConnection(connection_parameters(database.url, NAME), 60.0, generation)

    async def ended(connection: Connection) -> None:
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    before = await connection.run("asking", backend)
    with pytest.raises(StorageUnavailable, match="57P01"):
        await connection.run("writing", ended)
    assert generation.number == 1
    assert await connection.run("asking", backend) != before
    await connection.close()


async def test_a_second_cancellation_leaves_no_connection_open(table: Database) -> None:
    """Though its task does not wait for the socket, and so does not notice that it was cut."""
    made: list[Connection] = []

    async def pause(connection: Connection) -> None:
        made.append(connection)
        await asyncio.Event().wait()

    connection = DeadlineConnection(connection_parameters(table.url, NAME), 60.0, Generation())
    task = asyncio.create_task(connection.run("waiting", pause))
    await eventually(lambda: made, what="the work to begin")
    task.cancel()
    await asyncio.sleep(0)  # it asks the server to cancel the statement
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: made[0].closed, what="the connection to be closed")


async def test_closing_cancels_what_still_runs(table: Database) -> None:
    connection = DeadlineConnection(connection_parameters(table.url, NAME), 60.0, Generation())
    with table.connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        task = asyncio.create_task(connection.run("writing", one_statement))
        await eventually(lambda: waiting(table), what="the statement to wait")
        await connection.close()
        with pytest.raises(StorageUnavailable):
            await task
        await eventually(lambda: backends(table) == 0, what="the abandoned backend to end while the lock is held")
    assert table.run("SELECT n FROM t") == []


async def test_the_socket_is_cut_where_the_server_cannot_be_asked(table: Database) -> None:
    async with Proxy(table.url) as proxy:
        connection = DeadlineConnection(connection_parameters(proxy.url, NAME), 0.3, Generation())
        await connection.run("writing", one_statement)
        proxy.swallow()
        async with asyncio.timeout(30):  # 0.3 s, a second for the cancellation, a second for the task
            with pytest.raises(StorageUnavailable, match="no answer within"):
                await connection.run("writing", one_statement)
        proxy.flow()
        await connection.run("reading", lambda own: own.execute("SELECT 1"), 10.0)
        await connection.close()


async def test_a_loss_opens_the_connections_of_a_generation_again(table: Database) -> None:
    generation = Generation()
    parameters = connection_parameters(table.url, NAME)
    first, second = (DeadlineConnection(parameters, 10.0, generation) for _ in range(2))

    async def pid(connection: Connection) -> int:
        return connection.info.backend_pid

    before = await first.run("connecting", pid), await second.run("connecting", pid)
    table.run("SELECT pg_terminate_backend(%s, 5000)", [before[0]])
    with pytest.raises(StorageUnavailable):
        await first.run("writing", one_statement)
    assert await second.run("connecting", pid) != before[1]
    for connection in (first, second):
        await connection.close()


async def test_every_kind_of_connection_has_the_same_parameters(table: Database) -> None:
    parameters = connection_parameters(table.url, NAME)
    with connect(parameters) as sync:
        async with await connect_async(parameters) as own:
            for connection in (sync, own):
                names = connection.info.get_parameters()
                assert (names["keepalives_idle"], names["tcp_user_timeout"]) == ("10", "15000")
                assert (names["application_name"], connection.autocommit) == (NAME, True)
                assert connection.prepare_threshold is None


async def test_no_work_is_given_a_connection_that_is_not_ready(table: Database) -> None:
    """What makes it ready fails on the first connection, which is given up, and is awaited with the second."""
    pids = []

    async def on_connect(connection: Connection) -> None:
        pids.append(connection.info.backend_pid)
        await connection.execute("SELECT 1 / %s", [len(pids) - 1])

    async def pid(connection: Connection) -> int:
        return connection.info.backend_pid

    connection = DeadlineConnection(connection_parameters(table.url, NAME), 10.0, Generation(), on_connect=on_connect)
    with pytest.raises(RowRefused, match="connecting"):
        await connection.run("connecting", pid)
    assert await connection.run("connecting", pid) == await connection.run("connecting", pid) == pids[1]
    assert len(set(pids)) == 2
    await connection.close()
