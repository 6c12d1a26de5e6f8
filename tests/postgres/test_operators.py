"""Operators' connections that are kept: used again, replaced when they are lost, and never a reason to wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest

from relay.core.errors import StorageUnavailable
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.operator_connections import MOST_KEPT, keeping, operator_connection
from tests.support.fixtures.database import Database
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.waiting import patience, wait_until

END = "SELECT pg_terminate_backend(%s, 5000)"


def process(connection: SyncConnection) -> int:
    """The server's process of this connection, by a statement on it."""
    with translating():
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def used(url: str) -> int:
    """The process of a connection that is used once."""
    with operator_connection(url) as connection:
        return process(connection)


def lose(database: Database) -> None:
    """Use a connection, and once more when the server has ended it."""
    with operator_connection(database.url) as connection:
        database.run(END, [process(connection)])
        process(connection)


@pytest.fixture
def proxied(database: Database) -> Iterator[tuple[TcpProxy, str]]:
    """A proxy before the database, and the URL that leads to it."""
    url = urlsplit(database.url)
    with TcpProxy(url.port or 5432) as proxy:
        yield proxy, url._replace(netloc=f"{url.netloc.rpartition('@')[0]}@127.0.0.1:{proxy.port}").geturl()


def test_a_connection_is_used_again_while_they_are_kept_and_closed_at_the_end(database: Database) -> None:
    assert used(database.url) != used(database.url)
    with keeping(database.url):
        with operator_connection(database.url) as connection:
            first = process(connection)
        assert [used(database.url), used(database.url)] == [first, first]
    assert connection.closed
    assert used(database.url) != first


def test_one_that_ended_is_replaced_before_a_statement_meets_it(database: Database) -> None:
    with keeping(database.url):
        first = used(database.url)
        database.run(END, [first])
        assert used(database.url) != first


def test_one_that_is_lost_in_use_takes_the_others_with_it(database: Database) -> None:
    with keeping(database.url):
        with operator_connection(database.url) as one, operator_connection(database.url) as other:
            processes = {process(one), process(other)}
        with pytest.raises(StorageUnavailable):
            lose(database)
        assert used(database.url) not in processes


def test_what_is_left_in_a_transaction_is_not_used_again(database: Database) -> None:
    with keeping(database.url):
        with operator_connection(database.url) as connection:
            first = process(connection)
            connection.execute("BEGIN")
        assert used(database.url) != first
        with suppress(ValueError), operator_connection(database.url) as connection, connection.transaction():
            second = process(connection)
            raise ValueError
        assert used(database.url) == second  # it was rolled back


def test_no_more_than_a_few_are_kept(database: Database) -> None:
    with keeping(database.url), ExitStack() as stack:
        several = [stack.enter_context(operator_connection(database.url)) for _ in range(MOST_KEPT + 3)]
        stack.close()
        assert sum(not each.closed for each in several) == MOST_KEPT


def test_threads_never_share_one(database: Database) -> None:
    def work(_: int) -> bool:
        with operator_connection(database.url) as connection, connection.transaction():
            return process(connection) == process(connection)

    with keeping(database.url), ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(100)))


def test_a_hung_server_is_unavailable_and_a_new_connection_answers_again(proxied: tuple[TcpProxy, str]) -> None:
    proxy, url = proxied
    url += "?connect_timeout=2"
    with keeping(url):
        first = used(url)
        proxy.drop_silently()
        assert used(url) != first  # only the old ones are mute
        proxy.set(Mode.SILENCE)
        started = time.monotonic()
        with pytest.raises(StorageUnavailable):
            used(url)
        assert time.monotonic() - started < patience(5)
        proxy.set(Mode.FLOW)
        wait_until(lambda: used(url) > 0, what="the database")


def test_an_old_one_is_not_used_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with keeping(database.url):
        first = used(database.url)
        assert used(database.url) == first
        monkeypatch.setattr("relay.postgres.operator_connections.LONGEST_IDLE", 0.0)
        assert used(database.url) != first
