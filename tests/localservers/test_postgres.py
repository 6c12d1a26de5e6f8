"""The ground itself: the PostgreSQL that other tests stand on."""

from __future__ import annotations

import signal

import psycopg
import pytest

from relay.localservers.postgres import NEWEST_BUILD, PostgresServer
from relay.localservers.process import ServerFailed, alive
from tests.support.fixtures.postgres import Database
from tests.support.servers.memory_postgres import MemoryPostgres
from tests.support.servers.standby import StandbyServer

pytestmark = pytest.mark.postgres


def test_a_database_is_empty_and_of_this_test_alone(database: Database, postgres: str) -> None:
    tables = database.run(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'public'"
    )
    assert tables == [(0,)]
    assert database.run("SELECT current_database()") == [(database.name,)]
    assert database.url != postgres


async def test_the_newest_major_version_answers(newest_database: Database) -> None:
    async with await newest_database.connect_async() as connection:
        assert connection.info.server_version >= 180000


def test_data_outlives_a_crash_and_the_port_stays(own_postgres: PostgresServer) -> None:
    with psycopg.connect(own_postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    before = own_postgres.url
    own_postgres.stop(signal.SIGQUIT)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(before, connect_timeout=2)
    own_postgres.start()
    assert own_postgres.url == before
    with psycopg.connect(own_postgres.url) as connection:
        assert connection.execute("SELECT one FROM kept").fetchone() == (1,)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = PostgresServer(settings={"shared_buffers": "nonsense"})
    with pytest.raises(ServerFailed, match=r"shared_buffers"):
        server.start()
    with pytest.raises(ServerFailed):
        _ = server.folder


def test_closing_ends_the_process_and_deletes_the_data() -> None:
    with PostgresServer() as server:
        pid, folder = server.pid, server.folder
        assert alive(pid)
    assert not alive(pid)
    assert not folder.exists()


def test_programs_of_another_version_take_the_place_of_the_default_build(monkeypatch: pytest.MonkeyPatch) -> None:
    with MemoryPostgres(build=NEWEST_BUILD) as newest:
        monkeypatch.setattr(PostgresServer, "programs", newest.bin)
        with MemoryPostgres() as server, StandbyServer(server) as standby:
            numbers = {number(one) for one in (newest, server, standby)}
    assert len(numbers) == 1
    assert numbers.pop() >= 180000


def number(server: PostgresServer) -> int:
    with psycopg.connect(server.url) as connection:
        return connection.info.server_version
