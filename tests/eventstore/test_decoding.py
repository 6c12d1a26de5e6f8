"""Rows that a plain INSERT stored and that Python cannot represent: named, and one of them does not stop the others."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal

import pytest

from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, UndecodableEvent
from relay.eventstore.decoding import Fault, decode_body
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.waiting import patience

INSERT = "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta, Data, LogDate) VALUES (%s, %s, %s, 'E', {})"
DEEP = "repeat('[', 3000) || repeat(']', 3000)"
BROKEN = {
    "nested": f"'{{{{}}}}', ({DEEP})::jsonb, now()",
    "nested meta": f"({DEEP})::jsonb, NULL, now()",
    "infinite time": "'{}', NULL, 'infinity'",
    "late time": "'{}', NULL, '20000-01-01'",
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1" + "0" * 5000, Decimal(10) ** 5000),
        ("[-1" + "0" * 400 + ".5]", [Decimal("-1" + "0" * 400 + ".5")]),
        ("0." + "0" * 400 + "1", Decimal("0." + "0" * 400 + "1")),
        ("[1.5,-0.0,0.00,17]", [1.5, -0.0, 0.0, 17]),
    ],
)
def test_numbers_beyond_pythons_are_decimals(text: str, value: object) -> None:
    assert decode_body(text) == value
    assert decode_body(text.encode()) == value


def test_what_has_no_value_is_a_fault() -> None:
    assert isinstance(decode_body("[" * 100_000 + "]" * 100_000), Fault)


async def test_large_numbers_are_read(gapless_store: EventStore, database: Database) -> None:
    database.run(INSERT.format("'{}', '{\"n\": 1e5000}', now()"), (TENANT, STREAM, 1))
    assert (await gapless_store.read_all())[0].data == {"n": Decimal(10) ** 5000}
    assert (await gapless_store.read_stream(TENANT, STREAM))[0].data == {"n": Decimal(10) ** 5000}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_row_that_cannot_be_decoded_is_named_and_stops_no_other(
    gapless_store: EventStore, database: Database, what: str
) -> None:
    store = gapless_store
    await store.append(TENANT, STREAM, [NewEvent("before")], NO_STREAM)
    database.run(INSERT.format(BROKEN[what]).replace("{{}}", "{}"), (TENANT, STREAM, 2))
    await store.append(OTHER_TENANT, STREAM, [NewEvent("after")], ANY)
    name = f"position 2 .tenant {TENANT}, stream {STREAM}, version 2. cannot be decoded: "
    for tenants in (None, [TENANT]):
        assert [event.type for event in await store.read_all(tenants=tenants)] == ["before"]
        with pytest.raises(UndecodableEvent, match=name):
            await store.read_all(after=1, tenants=tenants)
    with pytest.raises(UndecodableEvent, match=name):
        await store.read_stream(TENANT, STREAM)
    assert [event.type for event in await store.read_all(after=2)] == ["after"]


async def test_a_subscription_stops_at_such_a_row_or_sets_it_aside(
    gapless_store: EventStore, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Set aside with its stream: other streams go on."""
    store = gapless_store
    await store.append(TENANT, STREAM, [NewEvent("before")], NO_STREAM)
    database.run(INSERT.format(BROKEN["infinite time"]), (TENANT, STREAM, 2))
    stopping, passing = store.subscribe("stops"), store.subscribe("passes", undecodable="set aside", batch_size=1)
    assert [event.type for event in await anext(stopping)] == ["before"]
    with pytest.raises(UndecodableEvent) as caught:
        await asyncio.wait_for(anext(stopping), patience(20))
    assert caught.value.sequence_num == 2
    with caplog.at_level(logging.ERROR):
        assert [event.type for event in await anext(passing)] == ["before"]
        waiting = asyncio.create_task(anext(passing))
        await store.append(TENANT, STREAM, [NewEvent("behind")], ANY)
        await store.append(OTHER_TENANT, STREAM, [NewEvent("other")], ANY)
        assert [event.type for event in await waiting] == ["other"]
    assert "set aside: the event at position 2" in caplog.text
    async with asyncio.timeout(patience()):
        await passing.aclose()
    whole = store.subscribe("whole", undecodable="set aside")
    batch = await anext(whole)
    assert [event.type for event in batch] == ["before", "other"]
    assert [error.sequence_num for error in batch.set_aside] == [2]
    await whole.aclose()
