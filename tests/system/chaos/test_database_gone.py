"""PostgreSQL goes away while writers insert: restarted, killed, read-only, hanging, its connections dropped.

The relay recovers without help, keeps quiet, loses nothing, and uses no attempt but for a claim whose answer was
lost.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from relay.localservers.postgres import PostgresServer
from relay.localservers.process import alive
from tests.support.daemon import Daemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.servers.memory_postgres import MemoryPostgres
from tests.support.servers.standby import StandbyServer
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.waiting import wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.load import Writers
from tests.system.chaos.looking import (
    Balance,
    check_attempts,
    check_finished,
    delivered,
    first_delivery_after,
    log_lines,
    seconds_until,
    setbacks,
    watch_setbacks,
)

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.timeout(300)]

OUTAGE = 3.0
HEALED_WITHIN = 30.0
PACE = {"LEASE_TIMEOUT": "20s", "RETRY_BASE_DELAY": "100ms", "RELAY_ID": "relay"}


def processes(server: PostgresServer) -> list[int]:
    """The server's process and those it started."""
    pids = [server.pid]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[1]) == server.pid:
                pids.append(int(stat.parent.name))
    return pids


def be_away(seconds: float) -> None:
    """The outage lasts."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, seconds + 10, "the outage to last")


@contextmanager
def restarted(server: PostgresServer, _: TcpProxy) -> Iterator[None]:
    server.stop()
    yield
    server.start()


@contextmanager
def killed(server: PostgresServer, _: TcpProxy) -> Iterator[None]:
    family = processes(server)
    server.stop(signal.SIGKILL)
    wait_until(lambda: not any(map(alive, family)), what="its processes to notice")
    yield
    server.start()


@contextmanager
def a_backend_killed(server: PostgresServer, _: TcpProxy) -> Iterator[None]:
    """What the kernel does when memory is short; PostgreSQL ends every connection and recovers."""
    with psycopg.connect(server.url) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'openoutbox%' LIMIT 1"
        row = connection.execute(query).fetchone()
    assert row is not None
    os.kill(row[0], signal.SIGKILL)
    yield


@contextmanager
def read_only(server: PostgresServer, _: TcpProxy) -> Iterator[None]:
    def turn(setting: str) -> None:
        with psycopg.connect(server.url, autocommit=True, options="-c default_transaction_read_only=off") as connection:
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {setting}".encode())
            connection.execute("SELECT pg_reload_conf()")

    turn("on")
    yield
    turn("off")


@contextmanager
def hanging(server: PostgresServer, _: TcpProxy) -> Iterator[None]:
    """Each of its processes; the first one is asleep for longest, since it starts the others and clears them up."""
    os.kill(server.pid, signal.SIGSTOP)
    children = processes(server)[1:]
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in (*children, server.pid):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def dropped(_: PostgresServer, proxy: TcpProxy) -> Iterator[None]:
    """Somewhere between the two the connections are forgotten, and neither side learns of it."""
    proxy.drop_silently()
    yield


Fault = Callable[[PostgresServer, TcpProxy], AbstractContextManager[None]]
FAULTS = [restarted, killed, a_backend_killed, read_only, hanging, dropped]
INSTANT = (a_backend_killed, dropped)
"""Over as soon as it has begun: recovery counts from there."""


@pytest.fixture(scope="module")
def several_times_gone() -> Iterator[PostgresServer]:
    """A server of this file's own, for one fault after the other."""
    with MemoryPostgres() as server:
        yield server


@pytest.fixture
def server(several_times_gone: PostgresServer) -> PostgresServer:
    """It runs, whatever the fault before left behind."""
    return several_times_gone.start()


_SOAK = {
    restarted: "the contract's tests have it",
    a_backend_killed: "every connection ends, as where the server is killed",
}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(one, marks=[pytest.mark.soak] if one in _SOAK else []) for one in FAULTS],
    ids=lambda fault: fault.__name__,
)
def test_the_relay_recovers_without_help(
    server: PostgresServer, make_broker: MakeBroker, fault: Fault, measured: Measured
) -> None:
    outbox, broker = Outbox.create(create_database(server.url)), make_broker("redis")
    watch_setbacks(outbox)
    with TcpProxy(server.port) as proxy:
        url = urlsplit(outbox.url)._replace(netloc=f"postgres@127.0.0.1:{proxy.port}").geturl()
        with Daemon(url, {**broker.env(), **PACE}) as relay:
            measured(**be_gone(outbox, broker, relay.wait_ready(), fault(server, proxy), fault))


# A primary that says nothing more is the harder one.
@pytest.mark.parametrize("how", ["vanished", pytest.param("crashed", marks=pytest.mark.soak)])
def test_a_standby_is_promoted(
    own_postgres: PostgresServer, make_broker: MakeBroker, how: str, measured: Measured
) -> None:
    """STORAGE_URL names both; the primary is refused from then on, or says nothing more, as a host that is gone."""
    database, broker = create_database(own_postgres.url), make_broker("redis")
    with StandbyServer(own_postgres) as standby, TcpProxy(own_postgres.port) as proxy:
        standby.follow_synchronously()

        def both(port: int, name: str) -> str:
            hosts = f"127.0.0.1:{port},127.0.0.1:{standby.port}"
            return f"postgresql://postgres@{hosts}/{name}?target_session_attrs=read-write"

        direct = both(own_postgres.port, database.name)
        outbox = Outbox.create(replace(database, url=direct, admin_url=both(own_postgres.port, "postgres")))
        watch_setbacks(outbox)

        @contextmanager
        def failed_over(server: PostgresServer, proxy: TcpProxy) -> Iterator[None]:
            if how == "vanished":
                proxy.set(Mode.SILENCE)
            server.stop(signal.SIGQUIT)
            yield
            standby.promote()

        url = both(proxy.port, database.name)
        with Daemon(url, {**broker.env(), **PACE}) as relay:
            figures = be_gone(outbox, broker, relay.wait_ready(), failed_over(own_postgres, proxy), failed_over)
    measured(**{**figures, "fault": f"PostgreSQL failed over, the primary {how}"})


def be_gone(
    outbox: Outbox, broker: Broker, relay: Daemon, during: AbstractContextManager[None], fault: Fault
) -> dict[str, object]:
    """The whole story; the figures."""
    noticed: float | None = None
    with Writers(outbox.url, broker.destination) as writers:
        wait_until(lambda: relay.running and delivered(outbox) > 300, what="the drain to be under way")
        began = time.time()
        with during:
            if fault not in INSTANT:
                noticed = seconds_until(lambda: relay.get("/readyz")[0] == 503, 40, "the relay to be not ready")
                assert relay.metric("openoutbox_relay_state") == 3
                be_away(OUTAGE)
                assert relay.get("/healthz")[0] == 200
        back = began if fault in INSTANT else time.time()
        recovery = first_delivery_after(outbox, back, 90, f"created_at > to_timestamp({back})")
        ended = time.time()
        wait_until(lambda: relay.get("/readyz")[0] == 200, what="the relay to be ready")
    outbox.wait_finished(90)
    check_finished(outbox)
    check_attempts(outbox)
    balance = Balance.of(writers, broker.received())
    balance.check()
    lines, busiest = log_lines(relay, began, ended)
    assert recovery < HEALED_WITHIN
    assert lines <= (ended - began) + 3
    return {
        "fault": f"PostgreSQL {fault.__name__}",
        "not_ready_after_s": noticed,
        "recovery_s": recovery,
        "duplicates": balance.duplicates,
        "lost": balance.lost,
        "leases_expired": setbacks(outbox, "attempts > was"),
        "log_lines": lines,
        "busiest_second": busiest,
        "events": balance.committed,
    }
