"""A tenant to a file and back, and the whole database by PostgreSQL's own tools."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import uuid
from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, StoredEvent, TenantBusy, UnknownTenant
from relay.localservers.postgres import DEFAULT_BUILD
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database, create_database, drop_database

Content = dict[uuid.UUID, list[tuple[object, ...]]]


def content(events: list[StoredEvent]) -> Content:
    """The streams, without the positions."""
    streams: Content = {}
    for event in sorted(events, key=lambda event: (event.stream_id, event.version)):
        streams.setdefault(event.stream_id, []).append(
            (event.version, event.type, event.meta, event.data, event.log_date)
        )
    return streams


async def fill(store: EventStore, count: int) -> None:
    streams = [uuid.uuid4() for _ in range(7)]
    for number in range(count):
        new = [NewEvent(f"T{number % 3}", {"n": number, "text": "a\n€\\"}, {"by": "test"}), NewEvent("Empty")]
        await store.append(TENANT, streams[number % 7], new, ANY)
        await store.append(OTHER_TENANT, STREAM, [NewEvent("Other")], ANY)


async def test_export_drop_and_import_give_back_the_same_streams(
    store: EventStore, database: Database, tmp_path: Path
) -> None:
    await fill(store, 40)
    database.run(
        "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta, Data) VALUES "
        "(%s, %s, 1, 'Exact', '{}', '{\"n\": 12345678901234567890.123456789012345678901234567890}'), "
        "(%s, %s, 2, 'Null', '{}', 'null')",
        (TENANT, STREAM, TENANT, STREAM),
    )
    columns = "StreamId, Version, Type, Meta::text, Data::text, LogDate"
    raw = f"SELECT {columns} FROM event WHERE TenantId = '{TENANT}' ORDER BY 1, 2"
    before, text_before = content(await store.read_all(tenants=[TENANT])), database.run(raw)
    file = tmp_path / "tenant.jsonl"
    assert await store.export_tenant(TENANT, file) == 82
    await store.drop_tenant(TENANT, confirm=TENANT)
    assert await store.import_tenant(file) == (TENANT, 82)
    assert content(await store.read_all(tenants=[TENANT])) == before
    assert database.run(raw) == text_before
    with pytest.raises(TenantBusy, match="has events"):
        await store.import_tenant(file)
    copy = uuid.uuid4()
    assert await store.import_tenant(file, copy) == (copy, 82)
    assert content(await store.read_all(tenants=[copy])) == before
    stream = next(iter(before))
    await store.append(TENANT, stream, [NewEvent("After")], len(before[stream]))


@pytest.mark.parametrize("cut", ["tail", "middle", "head", "empty", "other"])
async def test_a_file_that_is_not_whole_is_refused_before_anything_is_written(
    gapless_store: EventStore, tmp_path: Path, cut: str
) -> None:
    await gapless_store.append(TENANT, STREAM, [NewEvent("A"), NewEvent("B")], NO_STREAM)
    file = tmp_path / "tenant.jsonl"
    await gapless_store.export_tenant(TENANT, file)
    lines = file.read_text().splitlines(keepends=True)
    damaged = {"tail": lines[:-1], "middle": lines[:1] + lines[2:], "head": lines[1:], "empty": [], "other": ["[]\n"]}
    file.write_text("".join(damaged[cut]))
    newcomer = uuid.uuid4()
    with pytest.raises(ConfigError, match=str(file)):
        await gapless_store.import_tenant(file, newcomer)
    assert newcomer not in await gapless_store.list_tenants()


async def test_a_tenant_that_is_unknown_is_not_exported(gapless_store: EventStore, tmp_path: Path) -> None:
    with pytest.raises(UnknownTenant):
        await gapless_store.export_tenant(uuid.uuid4(), tmp_path / "file.jsonl")
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


async def test_a_dumped_and_restored_store_goes_on(store: EventStore, database: Database, positions: str) -> None:
    """Into a database where other transaction ids are current, with a subscription that goes on where it was."""
    await fill(store, 10)
    with pytest.raises(Exception, match="expected"):
        await store.append(TENANT, STREAM, [NewEvent("Refused")], 7)
    await store.reset_subscription("kept", 12)
    before = await store.read_all()
    restored = create_database(database.admin_url)
    try:
        await asyncio.to_thread(_copy, database, restored)
        async with await EventStore.connect(restored.url) as copy:
            await copy.migrate(positions=positions)  # type: ignore[arg-type]
            assert await copy.read_all() == before
            appended = await copy.append(OTHER_TENANT, STREAM, [NewEvent("After")], 10)
            assert appended.first_sequence_num > before[-1].sequence_num
            assert (await copy.read_all(after=before[-1].sequence_num))[0].type == "After"
            batch = await anext(copy.subscribe("kept"))
            assert batch.events[0].sequence_num > 12
            newcomer = uuid.uuid4()
            await copy.provision_tenant(newcomer)
            await copy.append(newcomer, STREAM, [NewEvent("New")], NO_STREAM)
    finally:
        drop_database(restored)


def _copy(source: Database, target: Database) -> None:
    package = importlib.util.find_spec(DEFAULT_BUILD)
    assert package is not None
    assert package.origin is not None
    tools = Path(package.origin).parent / "pginstall" / "bin"
    dump = [str(tools / "pg_dump"), "--no-owner", source.url]
    with subprocess.Popen(dump, stdout=subprocess.PIPE) as dumping:
        restore = [str(tools / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", target.url]
        subprocess.run(restore, stdin=dumping.stdout, check=True)
    assert dumping.returncode == 0
