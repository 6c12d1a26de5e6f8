"""A database that swallows everything: writes are given up in time, and begin again seconds after it is back.

A database that answers and only writes slowly is another case: its writes get more time.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from relay.deliverylog import DeliveryLog, open_delivery_log
from relay.deliverylog.log_options import RecorderOptions
from relay.deliverylog.recorder import Recorder
from tests.deliverylog.conftest import drop_tables
from tests.deliverylog.test_recorder import settled
from tests.support.fixtures.postgres import Database
from tests.support.options import recorder_options
from tests.support.servers.clickhouse_http import ClickHouseHttp
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.waiting import eventually, patience

OPTIONS = recorder_options(batch_size=10, flush_interval=0.01, retry_interval=0.1, write_timeout=1.0)
GIVE_UP = 5.0
"""Seconds until a write counts as failed: its timeout, a second each for cancelling and for ending, and air."""
RECOVERY = 10.0
"""Seconds from the return of the network to the first written batch."""


async def recovers(proxy: TcpProxy, open_store: Callable[[], Awaitable[DeliveryLog]], options: RecorderOptions) -> None:
    """Write, lose the network while connected and while connecting, and write again."""
    recorder = Recorder(open_store, options)
    recorder.start()
    try:
        recorder.record([settled(n) for n in range(10)])
        await eventually(lambda: recorder.written == 10)
        proxy.set(Mode.SILENCE)
        began = time.monotonic()
        recorder.record([settled(n) for n in range(10, 20)])
        await eventually(lambda: recorder.trouble, what="the write to be given up")
        assert time.monotonic() - began < patience(GIVE_UP)
        taken = proxy.accepted
        await eventually(lambda: proxy.accepted >= taken + 2, what="attempts to connect, which stay silent too")
        proxy.set(Mode.FLOW)
        back = time.monotonic()
        await eventually(lambda: recorder.written == 20, what="the batch to be written")
        assert time.monotonic() - back < patience(RECOVERY)
        assert recorder.trouble == ""
    finally:
        await recorder.close()


@pytest.fixture
async def proxy() -> AsyncIterator[TcpProxy]:
    with TcpProxy() as proxy:
        yield proxy


@pytest.mark.postgres
async def test_writing_to_postgres_begins_again_after_a_black_hole(log_database: Database, proxy: TcpProxy) -> None:
    address = urlsplit(log_database.url)
    assert address.port is not None
    proxy.target = address.port
    url = address._replace(netloc=f"{address.username}@127.0.0.1:{proxy.port}").geturl()
    await recovers(proxy, lambda: open_delivery_log(url, months_ahead=0), OPTIONS)


_SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.7); RETURN NULL; END $$;
CREATE TRIGGER slow BEFORE INSERT ON openoutbox_log.attempts FOR EACH STATEMENT EXECUTE FUNCTION slow()
"""


@pytest.mark.postgres
async def test_a_write_that_is_slow_gets_the_time_it_needs(log_database: Database) -> None:
    """Each write takes 0.7 s and is given up after 0.3 s, unless the answer to a ping has brought it more time."""
    with log_database.connect() as owner:
        owner.execute(_SLOW)
    recorder = Recorder(
        lambda: open_delivery_log(log_database.url, months_ahead=0), replace(OPTIONS, write_timeout=0.3)
    )
    recorder.start()
    try:
        recorder.record([settled(n) for n in range(10)])
        await eventually(lambda: recorder.trouble, what="the first write to be given up")
        await eventually(lambda: recorder.written == 10, what="the batch to be written")
        assert recorder.trouble == ""
    finally:
        await recorder.close()


@pytest.mark.clickhouse
@pytest.mark.xdist_group("clickhouse")
async def test_writing_to_clickhouse_begins_again_after_a_black_hole(
    chdb_folder: Path, prefix: str, proxy: TcpProxy
) -> None:
    with ClickHouseHttp(chdb_folder) as server:
        proxy.target = server.port

        async def open_store() -> DeliveryLog:
            return await open_delivery_log(ClickHouseHttp.url(proxy.port), prefix=prefix, connections=2)

        store = await open_store()
        await store.migrate()
        await recovers(proxy, open_store, OPTIONS)
        await drop_tables(store, prefix)
        await store.close()
