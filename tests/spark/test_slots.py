"""A job's connections are bounded on one machine, over machines, and by a database that has none left."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from relay.core.errors import StorageUnavailable
from relay.postgres.connect import SyncConnection, close_and_wait
from relay.postgres.sql import TableName
from relay.spark import connection as spark_connection
from relay.spark import slots
from relay.spark.connection import Wait, connect
from relay.spark.slots import slot
from relay.spark.statements import SparkStatements
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until

STATEMENTS = SparkStatements(TableName(), "openoutbox_spark")


class Holders:
    """How many hold something at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = self.all = 0

    def enter(self) -> None:
        with self._lock:
            self.now += 1
            self.all += 1
            self.most = max(self.most, self.now)

    def leave(self) -> None:
        with self._lock:
            self.now -= 1

    @contextmanager
    def one_more(self) -> Iterator[None]:
        self.enter()
        yield
        self.leave()


def tasks(run_id: uuid.UUID, opening: Callable[[], SyncConnection], holders: Holders) -> None:
    """Twelve tasks at once. Each holds a slot until two were held at a time, and for a statement."""

    def task(number: int) -> None:
        with slot(run_id, 2, STATEMENTS, opening) as connection, holders.one_more():
            wait_until(lambda: holders.most >= 2, what="two holders")
            connection.execute("SELECT pg_sleep(0.02)")

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(task, range(12)))


def test_tasks_of_one_machine_use_the_limit_and_no_more(outbox: Outbox) -> None:
    holders = Holders()
    tasks(uuid.uuid4(), lambda: connect(outbox.url), holders)
    assert (holders.most, holders.all) == (2, 12)


def test_tasks_of_several_machines_share_the_limit(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def of_another_machine(*_: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(slots, "_local_slot", of_another_machine)
    holders = Holders()
    tasks(uuid.uuid4(), lambda: connect(outbox.url), holders)
    assert (holders.most, holders.all) == (2, 12)


def test_of_each_machine_one_task_at_a_time_asks_for_a_slot(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten machines of four cores: most tasks find all slots taken, and must not connect to find it out at once."""
    machine = threading.local()
    address = slots._address
    monkeypatch.setattr(slots, "_address", lambda *names: f"{address(*names)}-{machine.number}")
    run_id, connected, holders = uuid.uuid4(), Holders(), Holders()

    def opening() -> SyncConnection:
        connected.enter()
        return connect(outbox.url)

    def closing(connection: SyncConnection) -> None:
        # Before the server frees the slot: the next task may have connected when the close returns.
        connected.leave()
        close_and_wait(connection)

    monkeypatch.setattr(spark_connection, "close_and_wait", closing)

    def task(number: int) -> None:
        machine.number = number % 10
        with slot(run_id, 4, STATEMENTS, opening) as connection, holders.one_more():
            wait_until(lambda: holders.most >= 4, what="four holders")
            connection.execute("SELECT pg_sleep(0.02)")

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(task, range(40)))
    assert (holders.all, holders.most) == (40, 4)
    assert connected.most <= 4 + 10


def test_a_task_whose_connection_hangs_holds_up_no_other(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_LONGEST_TURN", 0.1)
    run_id, asking, written = uuid.uuid4(), threading.Event(), threading.Event()

    def hanging() -> SyncConnection:
        asking.set()
        assert written.wait(60)
        return connect(outbox.url)

    def first() -> None:
        with slot(run_id, 2, STATEMENTS, hanging):
            pass

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(first)
        assert asking.wait(60)
        with slot(run_id, 2, STATEMENTS, lambda: connect(outbox.url)):
            written.set()
        task.result(60)


def fail(run_id: uuid.UUID, outbox: Outbox) -> None:
    with slot(run_id, 1, STATEMENTS, lambda: connect(outbox.url)) as connection:
        connection.execute("SELECT 1 / 0")


def test_a_task_that_fails_releases_its_slot(outbox: Outbox) -> None:
    run_id = uuid.uuid4()
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            fail(run_id, outbox)


def test_a_database_without_a_free_connection_is_waited_for(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    role = f"spark_{uuid.uuid4().hex[:8]}"
    outbox.database.run(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    url = outbox.url.replace("postgres@", f"{role}@")
    first = connect(url)
    waited = []

    def instead_of_sleeping(seconds: float) -> None:
        waited.append(seconds)
        close_and_wait(first)

    monkeypatch.setattr("relay.spark.connection.time.sleep", instead_of_sleeping)
    second = connect(url)
    assert waited
    with pytest.raises(StorageUnavailable, match="too many connections"):
        connect(url, wait=Wait(0))
    close_and_wait(second)
    outbox.database.run(f"DROP ROLE {role}")
