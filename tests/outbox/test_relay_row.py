"""The list of a table's relays: who may join, what the living know of each other, and what is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from relay.core.errors import ConfigError, SchemaError
from relay.core.optional_parts import Heartbeat
from relay.outbox.admin.relays import RelaySetting, list_relays, list_settings
from relay.outbox.extensions import add_extension
from relay.outbox.relay_row import OutboxFleet, RelayIdentity
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName, statement, without_parameters
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.options import storage_options
from tests.support.waiting import eventually

pytestmark = pytest.mark.postgres

TABLE = TableName()
BEAT = Heartbeat("active", "", 12.5, 0.5, 7, 1)
KAFKA = RelayIdentity(
    relay_id="relay-0",
    version="1.0",
    host="host",
    destination_type="kafka",
    destination="ab12",
    lease_timeout=60.0,
    ordering="none",
    on_delivered="keep",
    settings='{"BATCH_SIZE": {"value": "500", "changed": true}}',
)
NOWHERE = replace(KAFKA, relay_id="relay-1", destination_type="null", destination="cd34")
LOCK = without_parameters(statement("outbox/fleet:lock")).replace("%(relays)s", "'openoutbox_relays'").encode()
ROW = """
INSERT INTO openoutbox_relays (
    instance, relay_id, version, host, state, destination_type, destination, lease_timeout, ordering, on_delivered
) VALUES (gen_random_uuid(), 'relay-0', '1.0', 'host', 'starting', 'kafka', 'ab12', 60, 'none', 'keep')
"""
DATABASE = "(SELECT oid FROM pg_database WHERE datname = current_database())"
WAITING = f"SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = {DATABASE}"
INSERTS_WAIT = """
CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END';
CREATE TRIGGER wait_at_gate BEFORE INSERT ON openoutbox_relays FOR EACH ROW EXECUTE FUNCTION wait_at_gate();
"""
NewRelay = Callable[..., Awaitable[OutboxFleet]]


@pytest.fixture
async def storages() -> AsyncIterator[list[PostgresOutbox]]:
    opened: list[PostgresOutbox] = []
    yield opened
    for storage in opened:
        await storage.close()


@pytest.fixture
def relay(outbox: Outbox, storages: list[PostgresOutbox]) -> NewRelay:
    """Make one more relay, which has not joined."""
    add_extension(outbox.owner_url, TABLE, "fleet")
    with outbox.database.connect() as connection:
        give_rights(connection)

    async def new(identity: RelayIdentity, *, allow_mixed: bool = False) -> OutboxFleet:
        storage = PostgresOutbox(storage_options(outbox.relay_url, identity.relay_id, lease_timeout=60.0))
        storages.append(storage)
        await storage.open()
        return OutboxFleet(storage, TABLE, replace(identity, instance=uuid4()), allow_mixed=allow_mixed)

    return new


async def test_another_destination_is_refused_while_a_relay_lives(outbox: Outbox, relay: NewRelay) -> None:
    first, other = await relay(KAFKA), await relay(NOWHERE)
    await first.join()
    with pytest.raises(ConfigError, match=r"relay relay-0 on host host delivers .* FLEET_ALLOW_MIXED=true"):
        await other.join()
    await (await relay(KAFKA)).join()
    await (await relay(NOWHERE, allow_mixed=True)).join()
    assert len(list_relays(outbox.reader_url, TABLE)) == 3
    outbox.database.run("UPDATE openoutbox_relays SET seen_at = now() - interval '31 s'")
    await other.join()


async def test_of_two_that_start_at_once_one_is_refused(outbox: Outbox, relay: NewRelay) -> None:
    """An insert waits until the other relay waits, too: without the lock of the join both would insert."""
    pair = [await relay(KAFKA), await relay(NOWHERE)]
    outbox.database.run(INSERTS_WAIT)
    with outbox.database.connect(autocommit=False) as gate:
        gate.execute("SELECT pg_advisory_xact_lock(7)")
        joins = [asyncio.create_task(one.join()) for one in pair]
        await eventually(lambda: outbox.database.run(WAITING) == [(2,)], 5.0, "both relays to wait")
    results = await asyncio.gather(*joins, return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [ConfigError]
    assert len(list_relays(outbox.reader_url, TABLE)) == 1


async def test_a_list_that_shares_a_server_is_the_same_destination(relay: NewRelay) -> None:
    await (await relay(replace(KAFKA, destination="ab12 cd34"))).join()
    second = await relay(replace(KAFKA, relay_id="relay-1", destination="cd34 ef56"))
    await second.join()
    assert await second.beat(BEAT) == []
    with pytest.raises(ConfigError, match="must have a server in common"):
        await (await relay(replace(KAFKA, relay_id="relay-2", destination="ef56"))).join()
    with pytest.raises(ConfigError):
        await (await relay(replace(KAFKA, relay_id="relay-3", destination_type="redis", destination="ab12"))).join()


async def test_a_relay_waits_for_one_that_is_joining(outbox: Outbox, relay: NewRelay) -> None:
    """What the other has inserted is not committed when this one asks: without the lock it would join."""
    other = await relay(NOWHERE)
    with outbox.database.connect(autocommit=False) as joining:
        joining.execute(LOCK)
        joining.execute(ROW)
        task = asyncio.create_task(other.join())
        await eventually(lambda: outbox.database.run(WAITING) == [(1,)], 5.0, "the relay to wait for the lock")
    with pytest.raises(ConfigError):
        await task
    assert len(list_relays(outbox.reader_url, TABLE)) == 1


async def test_a_heartbeat_is_listed_and_tells_of_the_others(
    outbox: Outbox, relay: NewRelay, storages: list[PostgresOutbox]
) -> None:
    first = await relay(KAFKA)
    await first.join()
    assert await first.beat(BEAT) == []
    second = await relay(replace(KAFKA, relay_id="relay-1", lease_timeout=180.0, ordering="key", on_delivered="delete"))
    await second.join()
    assert await first.beat(BEAT) == [
        "relay relay-1 has LEASE_TIMEOUT 3m, this relay 1m",
        "relay relay-1 has ORDERING key, this relay none",
        "relay relay-1 has ON_DELIVERED delete, this relay keep",
    ]
    assert storages[0].longest_lease == 180.0
    [one] = [member for member in list_relays(outbox.reader_url, TABLE) if member.relay_id == "relay-0"]
    assert (one.living, one.state, one.delivered_per_second, one.in_flight, one.pauses) == (True, "active", 12.5, 7, 1)
    await second.leave()
    assert await first.beat(BEAT) == []
    assert storages[0].longest_lease == 0.0


async def test_relays_that_write_other_messages_are_named(outbox: Outbox, relay: NewRelay) -> None:
    own = '{"MESSAGE_FORMAT": {"value": "default"}, "ROUTE_PREFIX": {"value": null}, "routes": {"digest": "1a2b"}}'
    first = await relay(replace(KAFKA, settings=own))
    await first.join()
    other = '{"MESSAGE_FORMAT": {"value": "cloudevents"}, "ROUTE_PREFIX": {"value": "shop."}}'
    second = await relay(replace(KAFKA, relay_id="relay-1", settings=other))
    await second.join()
    assert await first.beat(BEAT) == [
        "relay relay-1 has MESSAGE_FORMAT cloudevents, this relay default",
        "relay relay-1 has ROUTE_PREFIX shop., this relay unset",
        "relay relay-1 has routes none, this relay digest 1a2b",
    ]
    listed = {(one.message_format, one.route_prefix) for one in list_relays(outbox.reader_url, TABLE)}
    assert listed == {("default", None), ("cloudevents", "shop.")}


async def test_the_rows_of_the_gone_are_deleted_and_ones_own_comes_back(outbox: Outbox, relay: NewRelay) -> None:
    first, gone = await relay(KAFKA), await relay(KAFKA)
    await first.join()
    await gone.join()
    outbox.database.run("UPDATE openoutbox_relays SET seen_at = now() - interval '11 min'")
    await first.beat(BEAT)
    assert [member.living for member in list_relays(outbox.reader_url, TABLE)] == [True]
    await gone.beat(BEAT)
    assert len(list_relays(outbox.reader_url, TABLE)) == 2
    rows = list_settings(outbox.reader_url, TABLE)
    assert [row.settings for row in rows] == [{"BATCH_SIZE": RelaySetting("500", True)}] * 2


async def test_leases_are_reclaimed_after_the_longest_lease_of_the_living(
    outbox: Outbox, relay: NewRelay, storages: list[PostgresOutbox]
) -> None:
    first = await relay(KAFKA)
    await (await relay(replace(KAFKA, lease_timeout=180.0))).join()
    outbox.fill("t", 1)
    outbox.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'x', locked_at = now() - interval '100 s'"
    )
    await first.beat(BEAT)
    assert (await storages[0].reap(10)).total == 0
    outbox.database.run("UPDATE openoutbox_relays SET seen_at = now() - interval '31 s'")
    await first.beat(BEAT)
    assert (await storages[0].reap(10)).total == 1


async def test_the_longest_lease_is_known_before_the_reaper_begins(
    relay: NewRelay, storages: list[PostgresOutbox]
) -> None:
    await (await relay(replace(KAFKA, lease_timeout=180.0))).join()
    await (await relay(KAFKA)).join()
    assert [storage.longest_lease for storage in storages] == [0.0, 180.0]


async def test_the_living_that_leave_no_proofs_are_known_at_once_and_by_each_heartbeat(
    outbox: Outbox, relay: NewRelay
) -> None:
    """An older one says nothing of the setting."""
    for relay_id, value in (("off", '{"value": "false"}'), ("on", '{"value": "true"}')):
        settings = f'{{"KAFKA_TRANSACTIONS": {value}}}'
        await (await relay(replace(KAFKA, relay_id=relay_id, settings=settings))).join()
    await (await relay(replace(KAFKA, relay_id="older", settings="{}"))).join()
    own = await relay(replace(KAFKA, relay_id="own"))
    await own.join()
    assert own.without_proofs == ["off", "older"]
    outbox.database.run("DELETE FROM openoutbox_relays WHERE relay_id = 'older'")
    await own.beat(BEAT)
    assert own.without_proofs == ["off"]


async def test_without_the_right_the_message_names_the_grant(outbox: Outbox, relay: NewRelay) -> None:
    outbox.database.run("REVOKE INSERT ON openoutbox_relays FROM openoutbox_relay")
    first = await relay(KAFKA)
    for doing in (first.join, lambda: first.beat(BEAT)):
        with pytest.raises(SchemaError, match=r'GRANT SELECT, INSERT, UPDATE, DELETE ON "openoutbox_relays"'):
            await doing()


async def test_without_the_extension_nothing_is_sent(outbox: Outbox) -> None:
    storage = PostgresOutbox(storage_options(outbox.relay_url, "r"))
    fleet = OutboxFleet(storage, TABLE, KAFKA, allow_mixed=False)
    await storage.open()
    await fleet.join()
    assert await fleet.beat(BEAT) == ()
    await fleet.leave()
    await storage.close()
