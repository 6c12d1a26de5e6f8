"""What holds the xmin horizon, as each role sees it on a real server, and for how long, by readings alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from relay.localservers.postgres import PostgresServer
from relay.outbox.migrate import migrate
from relay.postgres.horizon import HELD_LONG, MANY, Holder, HorizonWatch, XminHorizon
from relay.postgres.sql import TableName, statement
from tests.support.fixtures.outbox import as_user
from tests.support.servers.standby import StandbyServer
from tests.support.waiting import wait_until

_READ = "SELECT count(*) FROM openoutbox_events"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server with prepared transactions, an outbox, and a role that may read it and nothing else."""
    with PostgresServer(settings={"max_prepared_transactions": "2", "autovacuum": "off"}) as server:
        migrate(server.url, TableName())
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE least LOGIN")
            admin.execute("CREATE ROLE seeing LOGIN IN ROLE pg_read_all_stats")
        yield server


def read(server: PostgresServer, role: str = "least") -> XminHorizon:
    with psycopg.connect(as_user(server.url, role), autocommit=True) as connection:
        row = connection.execute(statement("horizon:held")).fetchone()
        assert row is not None
        return XminHorizon.of(row)


def pass_transactions(server: PostgresServer, count: int = 10) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        for _ in range(count):
            connection.execute("SELECT pg_current_xact_id()")


def dead_rows_stay(server: PostgresServer) -> bool:
    """Whether a vacuum leaves the dead rows of a transaction that ended just now."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS vacuumed AS SELECT 1 AS n")
        connection.execute("UPDATE vacuumed SET n = n + 1")
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        connection.execute("VACUUM (VERBOSE) vacuumed")
    return any(" 1 are dead but not yet removable" in notice for notice in notices)


@pytest.fixture
def connections(server: PostgresServer) -> Iterator[ExitStack]:
    del server
    with ExitStack() as stack:
        yield stack


def connect(stack: ExitStack, server: PostgresServer, name: str) -> psycopg.Connection:
    return stack.enter_context(closing(psycopg.connect(server.url, application_name=name)))


@pytest.mark.postgres
def test_where_nothing_is_open_nothing_is_held(server: PostgresServer) -> None:
    assert read(server).holder is None
    assert not dead_rows_stay(server)


@pytest.mark.postgres
@pytest.mark.parametrize("role", ["least", "seeing"])
def test_the_snapshot_of_another_role_is_seen_with_its_name(
    server: PostgresServer, connections: ExitStack, role: str
) -> None:
    dump = connect(connections, server, "pg_dump")
    dump.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    dump.execute(_READ)
    pass_transactions(server)
    holder = read(server, role).holder
    assert holder is not None
    assert holder[:4] == ("pid", str(dump.info.backend_pid), "pg_dump", "postgres")
    assert holder.transactions >= 10
    assert (holder.seconds is None) is (role == "least")
    assert dead_rows_stay(server)


@pytest.mark.postgres
def test_a_forgotten_begin_holds_it_once_it_has_written(server: PostgresServer, connections: ExitStack) -> None:
    writer = connect(connections, server, "forgotten")
    writer.execute(_READ)
    pass_transactions(server)
    assert read(server).holder is None
    assert not dead_rows_stay(server)
    writer.execute("SELECT pg_current_xact_id()")
    reader = connect(connections, server, "reader")  # its snapshot waits for the writer, and reaches back as far
    reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    reader.execute(_READ)
    pass_transactions(server)
    holder = read(server).holder
    assert holder is not None
    assert holder.application == "forgotten"
    assert dead_rows_stay(server)


@pytest.mark.postgres
def test_a_prepared_transaction_is_seen_with_its_age(server: PostgresServer, connections: ExitStack) -> None:
    session = connect(connections, server, "prepares")
    session.execute("SELECT pg_current_xact_id()")
    session.execute("PREPARE TRANSACTION 'it''s left'")
    try:
        pass_transactions(server)
        holder = read(server).holder
        assert holder is not None
        assert holder[:4] == ("prepared transaction", "it's left", "", "postgres")
        assert holder.seconds is not None
        assert dead_rows_stay(server)
        statement, _, _ = holder.remedy.partition(": ")[2].partition(",")
        assert statement == "ROLLBACK PREPARED 'it''s left'"
    finally:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("ROLLBACK PREPARED 'it''s left'")


@pytest.mark.postgres
def test_a_session_of_another_database_holds_nothing_here(server: PostgresServer, connections: ExitStack) -> None:
    other = connections.enter_context(closing(psycopg.connect(server.database_url("template1"))))
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    other.execute("SELECT count(*) FROM pg_class")
    pass_transactions(server)
    assert read(server).holder is None
    assert not dead_rows_stay(server)


@pytest.mark.postgres
@pytest.mark.parametrize("slot", [True, False])
def test_the_query_on_a_standby_that_sends_feedback_is_seen(
    server: PostgresServer, connections: ExitStack, slot: bool
) -> None:
    standby = connections.enter_context(StandbyServer(server))
    with psycopg.connect(standby.url, autocommit=True) as admin:
        settings = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1"}
        if slot:
            settings["primary_slot_name"] = "standby"
            with psycopg.connect(server.url, autocommit=True) as primary:
                primary.execute("SELECT pg_create_physical_replication_slot('standby')")
        for name, value in settings.items():
            admin.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        admin.execute("SELECT pg_reload_conf()")
    report = connections.enter_context(closing(psycopg.connect(standby.url)))
    report.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    report.execute("SELECT count(*) FROM pg_class")
    pass_transactions(server)
    kind = "replication slot" if slot else "pid"

    def holder() -> Holder | None:
        holder = read(server).holder
        return holder if holder is not None and holder.kind == kind else None

    try:
        wait_until(lambda: holder() is not None, what="the feedback of the standby")
        found = holder()
        assert found is not None
        assert found.seconds is None
        assert found.name == "standby" if slot else found.application
        assert dead_rows_stay(server)
    finally:
        connections.close()
        if slot:
            with psycopg.connect(server.url, autocommit=True) as admin:
                inactive = "SELECT count(*) FROM pg_replication_slots WHERE NOT active"
                wait_until(lambda: admin.execute(inactive).fetchone() == (1,), what="the standby to be gone")
                admin.execute("SELECT pg_drop_replication_slot('standby')")


def held_by(transactions: int, seconds: float | None = None) -> Holder:
    return Holder("pid", "1", "report", "", seconds, transactions)


@pytest.mark.parametrize(
    ("holder", "long"),
    [
        (None, False),
        (held_by(5000, HELD_LONG - 1), False),
        (held_by(5000, HELD_LONG), True),
        (held_by(10, HELD_LONG), False),  # nothing to speak of is dead
        (held_by(MANY - 1), False),
        (held_by(MANY), True),
    ],
)
def test_one_reading_is_long_by_the_age_or_by_the_transactions(holder: Holder | None, long: bool) -> None:
    assert XminHorizon(10**6, holder).held_long == (holder if long else None)


def test_a_watch_ages_the_horizon_by_its_own_readings() -> None:
    now = 0.0
    watch = HorizonWatch(lambda: now)
    assert watch.held(XminHorizon(100, None)) == 0.0
    now = 60.0
    assert watch.held(XminHorizon(200, held_by(50))) == 0.0  # began between the readings
    now = 120.0
    assert watch.held(XminHorizon(300, held_by(150))) == 60.0
    assert watch.held(XminHorizon(310, held_by(2))) == 0.0
    now = 180.0
    assert watch.held(XminHorizon(400, held_by(250))) == 120.0
    assert watch.held(XminHorizon(400, held_by(350, 3600.0))) == 3600.0  # from before the first reading
    assert watch.held(XminHorizon(400, held_by(350))) == 180.0
    assert watch.held(XminHorizon(50, held_by(10))) == 0.0  # restored to an earlier time


def test_a_watch_of_weeks_stays_small_and_never_exaggerates() -> None:
    now = 0.0
    watch = HorizonWatch(lambda: now)
    for minute in range(10_001):
        now = minute * 60.0
        watch.held(XminHorizon(minute * 100, None))
    for minutes in (1, 60, 700):
        assert watch.held(XminHorizon(10_000 * 100, held_by(minutes * 100 + 50))) == minutes * 60.0
    assert 0.5 < watch.held(XminHorizon(10_000 * 100, held_by(9_000 * 100 + 50))) / (9_000 * 60.0) <= 1.0
    assert len(watch._times) < 1500
