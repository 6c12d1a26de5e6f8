"""A store on a standby that has not received the newest events, and that takes over without them."""

from __future__ import annotations

import psycopg
import pytest

from relay.core.errors import StorageError
from relay.eventstore import NO_STREAM, EventStore, NewEvent, PositionsWentBack
from relay.localservers.postgres import PostgresServer
from tests.eventstore.conftest import STREAM, TENANT
from tests.support.servers.standby import StandbyServer
from tests.support.waiting import wait_until


def receive_no_more(standby: StandbyServer, primary: PostgresServer) -> None:
    """Let the standby catch up, and then cut it off."""
    with psycopg.connect(primary.url, autocommit=True) as admin:
        [written] = admin.execute("SELECT pg_current_wal_flush_lsn()").fetchone() or [None]
    with psycopg.connect(standby.url, autocommit=True) as admin:
        behind = "SELECT pg_last_wal_replay_lsn() < %s"
        wait_until(lambda: admin.execute(behind, [written]).fetchone() == (False,), what="the standby to catch up")
        admin.execute("ALTER SYSTEM SET primary_conninfo = ''")
        admin.execute("SELECT pg_reload_conf()")
        receivers = "SELECT count(*) FROM pg_stat_wal_receiver"
        wait_until(lambda: admin.execute(receivers).fetchone() == (0,), what="the standby to be cut off")


async def test_what_a_standby_has_not_received_is_waited_for_until_it_takes_over(
    own_postgres: PostgresServer, positions: str
) -> None:
    async with await EventStore.connect(own_postgres.url) as store:
        await store.migrate(positions=positions)  # type: ignore[arg-type]
        await store.provision_tenant(TENANT)
        await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
        with StandbyServer(own_postgres) as standby:
            receive_no_more(standby, own_postgres)
            await store.append(TENANT, STREAM, [NewEvent("Lost")], 1)
            ahead = (await store.read_all())[-1].checkpoint
            async with await EventStore.connect(standby.url) as other:
                if positions == "gapless":
                    assert await other.read_all(ahead) == []
                    assert [event.type for event in await other.read_all()] == ["A"]
                else:
                    with pytest.raises(StorageError, match="a standby cannot tell which positions are settled"):
                        await other.read_all(ahead)
                standby.promote()
                with pytest.raises(PositionsWentBack):
                    await other.read_all(ahead)
                await other.append(TENANT, STREAM, [NewEvent("Instead"), NewEvent("More")], 1)
                with pytest.raises(PositionsWentBack):
                    await other.read_all(ahead)
                assert [event.type for event in await other.read_all()] == ["A", "Instead", "More"]
