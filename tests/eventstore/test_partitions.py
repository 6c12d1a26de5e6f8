"""Pages of many tenants: prepared statements read the tenants that come again, and nothing else is different."""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import AsyncIterator, Sequence

import pytest

from relay.core.checkpoint import START
from relay.eventstore import ANY, EventStore, NewEvent, StoredEvent, UndecodableEvent
from relay.eventstore.partitions import Group, Groups
from relay.eventstore.read import EventFilter
from relay.eventstore.statements import EventStoreStatements
from tests.support.fixtures.postgres import Database

TENANTS = [uuid.UUID(int=number) for number in range(1, 51)]
PLANS = """
SELECT count(*), coalesce(sum(generic_plans), 0), coalesce(sum(custom_plans), 0)
FROM pg_prepared_statements WHERE statement NOT LIKE '%event_append%'
"""


def split(groups: Groups, tenants: Sequence[uuid.UUID]) -> tuple[list[Group], list[uuid.UUID]]:
    """As ``Groups.split``; every tenant of the page is read once."""
    used, rest = groups.split(tenants)
    grouped = [tenant for group in used for tenant in group.tenants]
    assert len(set(grouped)) == len(grouped)
    assert set(tenants) - set(grouped) == set(rest)
    return used, rest


def test_tenants_that_come_again_are_read_by_groups_of_20() -> None:
    groups = Groups(EventStoreStatements())
    assert split(groups, TENANTS) == ([], TENANTS)
    first, rest = split(groups, TENANTS)
    assert [len(group.tenants) for group in first] == [20, 20]
    assert rest == TENANTS[40:]
    assert split(groups, TENANTS[::-1])[0] == first[::-1]
    assert str(TENANTS[0]) in first[0].of_all_streams


def test_a_group_is_used_for_five_of_its_tenants() -> None:
    groups = Groups(EventStoreStatements())
    for _ in range(2):
        split(groups, TENANTS[:20])
    assert split(groups, TENANTS[:5])[1] == []
    for _ in range(3):  # nor do its tenants make another group
        assert split(groups, TENANTS[:4]) == ([], TENANTS[:4])


def test_the_group_that_was_unused_for_longest_makes_room() -> None:
    groups, pages = Groups(EventStoreStatements()), [[uuid.uuid4() for _ in range(20)] for _ in range(51)]
    for page in pages[:50]:
        split(groups, page)
        split(groups, page)
    assert len(split(groups, pages[0])[0]) == 1
    split(groups, pages[50])
    assert len(split(groups, pages[50])[0]) == 1
    assert split(groups, pages[1])[0] == []  # removed
    assert len(split(groups, pages[0])[0]) == 1
    everything = list(itertools.chain.from_iterable(pages))
    for _ in range(3):
        assert len(split(groups, everything)[0]) == 50


@pytest.fixture
async def one_session(database: Database) -> AsyncIterator[EventStore]:
    """A store of 50 tenants that reads over one connection."""
    async with await EventStore.connect(database.url, max_connections=1) as store:
        await store.migrate(notify=False)
        for tenant in TENANTS:
            await store.provision_tenant(tenant)
        yield store


async def fill(store: EventStore, tenants: Sequence[uuid.UUID]) -> None:
    for tenant in tenants:
        await store.append(tenant, tenant, [NewEvent("A", 1), NewEvent("B", 2)], ANY)


async def plans(store: EventStore) -> tuple[int, int, int]:
    """Prepared statements of the store's session, and how often a plan was used again, or made."""
    [(count, generic, custom)] = await store._database.rows("look", PLANS)
    return int(count), int(generic), int(custom)


async def stored(database: Database, condition: str = "true") -> list[int]:
    rows = database.run(f"SELECT SequenceNum FROM event WHERE {condition} ORDER BY 1")
    return [number for (number,) in rows]


def numbers(events: Sequence[StoredEvent]) -> list[int]:
    return [event.sequence_num for event in events]


async def test_a_page_of_known_tenants_is_not_planned_again(one_session: EventStore, database: Database) -> None:
    await fill(one_session, TENANTS)
    for expected in ((0, 0, 0), (2, 2, 0), (2, 4, 0)):
        assert numbers(await one_session.read_all()) == await stored(database)
        assert await plans(one_session) == expected
    # Any other statement of the session is planned for its own tenants, as before.
    assert await one_session._database.rows("look", "SHOW plan_cache_mode") == [("auto",)]


async def test_kept_plans_read_what_is_there(one_session: EventStore, database: Database) -> None:
    """Every page while tenants come and go, filtered or not, is that of a plain SELECT."""
    store, chance = one_session, random.Random(15)
    await fill(store, TENANTS)
    for turn in range(6):
        after = chance.choice([0, 0, 20])
        limit = chance.choice([60, 1000])
        assert numbers(await store.read_all(after, limit)) == (await stored(database, f"SequenceNum > {after}"))[:limit]
        assert numbers(await store.read_all(types=["B"])) == await stored(database, "Type = 'B'")
        some = chance.sample(TENANTS, 30)
        chosen = ", ".join(f"'{tenant}'" for tenant in some)
        assert numbers(await store.read_all(tenants=some)) == await stored(database, f"TenantId IN ({chosen})")
        changed = chance.choice(TENANTS)
        await store.drop_tenant(changed, confirm=changed)
        if turn % 2:
            assert numbers(await store.read_all()) == await stored(database)
        await store.provision_tenant(changed)
        await fill(store, [changed])
    assert numbers(await store.read_all()) == await stored(database)
    assert (await plans(store))[0] == 2


async def test_a_part_of_a_subscription_reads_by_kept_plans(one_session: EventStore, database: Database) -> None:
    await fill(one_session, TENANTS)
    odd = EventFilter(slots="{" + "0,9223372036854775807," * 127 + "0,9223372036854775807}")
    condition = "(uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 1) = 0"
    expected = await stored(database, condition)
    assert 40 < len(expected) < 100
    for _ in range(5):
        assert numbers((await one_session._reader.page(START, 1000, odd)).events) == expected
    count, generic, custom = await plans(one_session)
    assert count > 0
    assert (generic, custom) == (4 * count, 0)


async def test_a_row_that_cannot_be_decoded_is_named_from_a_kept_plan(
    one_session: EventStore, database: Database
) -> None:
    await fill(one_session, TENANTS)
    for _ in range(2):
        await one_session.read_all()
    with database.connect() as connection, connection.transaction():
        connection.execute("SET LOCAL eventstore.changes = 'allowed'")
        connection.execute("UPDATE event SET LogDate = 'infinity' WHERE TenantId = %s AND Version = 2", (TENANTS[7],))
    position = 2 * 8
    assert numbers(await one_session.read_all()) == list(range(1, position))
    with pytest.raises(UndecodableEvent, match=f"position {position} "):
        await one_session.read_all(after=position - 1)
    assert (await plans(one_session))[0] == 2
