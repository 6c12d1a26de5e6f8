"""A tenant to a file and back, and the whole database by PostgreSQL's own tools."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import uuid
from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, StoredEvent, TenantBusy, UnknownTenant
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database, create_database, drop_database
from tests.support.paths import ROOT
from tests.support.psql import TOOLS
from tests.support.waiting import eventually

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
    end = (await store.read_all())[-1].sequence_num
    file = tmp_path / "tenant.jsonl"
    assert await store.export_tenant(TENANT, file) == 82
    await store.drop_tenant(TENANT, confirm=TENANT)
    assert await store.import_tenant(file) == (TENANT, 82)
    assert content(await store.read_all(tenants=[TENANT])) == before
    assert database.run(raw) == text_before
    async with contextlib.aclosing(store.subscribe("reader", start=end)) as batches:
        assert content((await anext(batches)).events) == before, "to a subscription they are new"
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


async def test_a_store_is_dumped_by_parts_of_one_snapshot(
    gapless_store: EventStore, database: Database, tmp_path: Path
) -> None:
    """With the commands of docs/guide/event-store.md. Events that are appended meanwhile are in no part."""
    await fill(gapless_store, 5)
    for first_digit in "4c":  # a quarter without a tenant has nothing to dump
        await gapless_store.provision_tenant(first_digit + TENANT.hex[1:])
    before = await gapless_store.read_all()
    restored = create_database(database.admin_url)
    try:
        with database.connect(autocommit=False) as holder:
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            ((snapshot,),) = holder.execute("SELECT pg_export_snapshot()").fetchall()
            await gapless_store.append(OTHER_TENANT, STREAM, [NewEvent("Meanwhile")], 5)
            await asyncio.to_thread(_copy_by_parts, tmp_path, database, restored, snapshot)
        async with await EventStore.connect(restored.url) as copy:
            assert (await copy.migrate()).up_to_date
            assert restored.run("SELECT 1 FROM pg_index WHERE NOT indisvalid") == []
            assert await copy.read_all() == before
            assert (await copy.append(OTHER_TENANT, STREAM, [NewEvent("After")], 5)).version == 6
            await copy.drop_tenant(TENANT, confirm=TENANT)
            assert len(await copy.read_all()) == 6
    finally:
        drop_database(restored)


def _copy_by_parts(folder: Path, source: Database, target: Database, snapshot: str) -> None:
    """Run the shell commands of the document, which are for schema bank."""
    document = (ROOT / "docs/guide/event-store.md").read_text(encoding="utf-8")
    commands = re.findall(r"```sh\n(pg_(?:dump|restore) .*?)```", document, re.DOTALL)
    values = {"URL": source.url, "NEW_URL": target.url, "SNAPSHOT": snapshot}
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    script = "set -eu\n" + "".join(commands).replace("bank.", "public.")
    subprocess.run(["sh", "-c", script], cwd=folder, env={**os.environ, **values, "PATH": path}, check=True)


def _copy(source: Database, target: Database) -> None:
    dump = [str(TOOLS / "pg_dump"), "--no-owner", source.url]
    with subprocess.Popen(dump, stdout=subprocess.PIPE) as dumping:
        restore = [str(TOOLS / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", target.url]
        subprocess.run(restore, stdin=dumping.stdout, check=True)
    assert dumping.returncode == 0


async def test_an_interrupted_export_leaves_no_file(
    gapless_store: EventStore, database: Database, tmp_path: Path
) -> None:
    """Neither the whole one nor a part: both hold personal data."""
    await gapless_store.append(TENANT, STREAM, [NewEvent("E", n) for n in range(3)], NO_STREAM)
    path, part = tmp_path / "tenant.jsonl", tmp_path / "tenant.jsonl.part"
    with database.connect(autocommit=False) as blocker:
        blocker.execute(f"LOCK TABLE event_{TENANT.hex}")  # after the head of the file was written
        export = asyncio.create_task(gapless_store.export_tenant(TENANT, path))
        await eventually(database.waiting_for_locks)
        assert part.exists()
        export.cancel()
        with pytest.raises(asyncio.CancelledError):
            await export
        blocker.rollback()
    assert not path.exists()
    assert not part.exists()
