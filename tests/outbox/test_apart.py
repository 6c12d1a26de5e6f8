"""What claims leave out of a type by headers: SQL and routing say the same of every event, and order per key holds."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterator
from itertools import product
from typing import Any

import psycopg
import pytest

from relay.core.event import EventId, OutboxEvent
from relay.core.headers import RAW_HEADERS
from relay.core.places import Apart, Flow
from relay.outbox.extensions import add_extension
from relay.outbox.left_out import PausedRows
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName, statement
from relay.routing.rules import MOST_PATTERNS, PLAIN, Routes, Rule, Target
from relay.routing.template import read_template
from tests.outbox.test_conformance import ANY_BYTES
from tests.outbox.test_fan_out import extend
from tests.support.apart import is_left_out
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options

pytestmark = pytest.mark.postgres

TYPE = "t%_"
_ROUTES = 80
_PIECES = ("d.", "{type}", "{header:region}", "{header:tenant}", "{header:a b}", ".", "%", "\\", "é")
_PATTERNS = (
    *("d.eu*", "*eu", "d.*", "*%*", "*\\*", "*_*", "*1*"),
    *("*.0", "*null*", "*{*", "*é", "*\n*", "d.eu.us", "*e*u*s*"),
)
_VALUES = (
    *('"eu"', '"us"', '"EU"', '""', '" "', '"a%b"', '"_"', '"\\\\"', '"\\n"', '"é"', '"null"', '"1"', '"*"', '"{}"'),
    *("1", "1.0", "-0", "1e400", "12345678901234567890123", "true", "false", "null"),
    *("{}", '{"b": 1, "a": [1,2]}', "[]", '["eu"]', '{"region": "eu"}'),
)
_NO_OBJECTS = ("[]", '"region"', '"eu"', "1", "true", "null", '["region", "tenant"]', '[{"region": "eu"}]')
_HEADERS = ("region", "tenant", "a b", "Region")


def some_headers(rng: random.Random) -> str:
    """JSON, as an application may write it; a name may stand in it twice."""
    if rng.random() < 0.1:
        return rng.choice(_NO_OBJECTS)
    names = rng.choices(_HEADERS, k=rng.randrange(5))
    return "{" + ", ".join(f"{json.dumps(name)}: {rng.choice(_VALUES)}" for name in names) + "}"


def is_texts(headers: object) -> bool:
    return isinstance(headers, dict) and all(isinstance(value, str) for value in headers.values())


def some_template(rng: random.Random) -> Any:
    return read_template("".join(rng.choices(_PIECES, k=rng.randrange(1, 5))), "tenant")


def some_routes(rng: random.Random) -> Routes:
    """Endpoints, queues and topics, to which headers lead, alone and beside others."""
    patterns = rng.sample(_PATTERNS, rng.randrange(1, 6))
    inner = [Rule(number, one, PLAIN, f"hook {number % 3}") for number, one in enumerate(patterns, 1)]
    hooks = Routes(inner, default=rng.choice([None, "hook 0"]))
    vias = rng.sample(["hooks", "queues", "topics"], rng.randrange(1, 4))
    targets = [Target(via, some_template(rng)) for via in vias]
    first = Rule(1, rng.choice([TYPE, "t*", "*", "other"]), targets[0].to, targets[0].via, tuple(targets[1:]))
    second = Rule(2, "*", some_template(rng), rng.choice(["hooks", "queues"]))
    return Routes([first, second], rng.choice(["", "p_"]), "topics", {"hooks": hooks}, ["queues"])


@pytest.fixture
def connection(outbox: Outbox) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with outbox.database.connect() as connection:
        yield connection


def stored(connection: psycopg.Connection[tuple[Any, ...]], rng: random.Random, rows: int) -> list[OutboxEvent]:
    """Events in the table, as claims read them."""
    columns = "INSERT INTO openoutbox_events (event_id, event_type, payload, headers)"
    for event_type, headers in [(rng.choice([TYPE, TYPE, "t1_"]), some_headers(rng)) for _ in range(rows)]:
        connection.execute(f"{columns} VALUES (gen_random_uuid(), %s, '', %s::jsonb)", [event_type, headers])
    sql = "SELECT event_id::text, event_type, NULL, '', headers::text, 0, 0 FROM openoutbox_events"
    return [OutboxEvent(*row) for row in connection.execute(sql)]


def left_out(connection: psycopg.Connection[tuple[Any, ...]], *flows: Flow) -> set[EventId]:
    """Which events of the table a claim leaves out."""
    paused = PausedRows(TableName(), lambda: 0.0)
    paused.leave_out(flows)
    sql = statement("outbox/claim:free", TableName(), tags=paused.tags).replace(
        "SELECT\n", "SELECT event_id::text,\n", 1
    )
    return {event_id for event_id, free in connection.execute(sql, paused.parameters()) if not free}


@pytest.mark.parametrize("seed", range(4))
def test_sql_and_routing_send_an_event_to_the_same_destination(
    connection: psycopg.Connection[tuple[Any, ...]], seed: int
) -> None:
    rng = random.Random(seed)
    events = stored(connection, rng, 300)
    texts = [event for event in events if is_texts(json.loads(event.headers))]
    told = 0
    for routes in (some_routes(rng) for _ in range(_ROUTES // 4)):
        flows = {event.event_id: routes.flow_of(event) for event in events}
        apart = [flow for flow in dict.fromkeys(flows.values()) if isinstance(flow, Apart)]
        told += len(apart)
        for flow in apart:
            mine = {one for one, its in flows.items() if its == flow}
            assert left_out(connection, flow) == mine, (routes.rules, routes.further, flow)
            double = {one.event_id for one in texts if is_left_out([flow], one.event_type, one.headers)}
            assert double == mine & {one.event_id for one in texts}
            places = {routes.places(one).sent for one in events if one.event_id in mine}
            names = {(place.via, place.name) for sent in places for place in sent}
            assert not names or (flow.part or flow.via) in {part for name in names for part in name}
        assert left_out(connection, *apart) == {one for one, its in flows.items() if isinstance(its, Apart)}
    assert told > 50


def test_events_of_one_flow_are_all_that_a_destination_has_of_their_type(
    connection: psycopg.Connection[tuple[Any, ...]],
) -> None:
    """With one pattern for each endpoint: what is left out for one keeps no event from another."""
    rng = random.Random(5)
    events = stored(connection, rng, 300)
    rules = [Rule(number, one, PLAIN, f"hook {number}") for number, one in enumerate(("*eu*", "*1*", "*"), 1)]
    routes = Routes(
        [Rule(1, "*", read_template("x.{header:region}.{type}", ""), "hooks")],
        default="hooks",
        further={"hooks": Routes(rules, default=None)},
    )
    for one, (event_type, rule) in product(events, product([TYPE, "t1_"], rules)):
        goes = routes.places(one).sent and routes.places(one).sent[0].via == rule.via and one.event_type == event_type
        flow = routes.flow_of(one)
        assert (isinstance(flow, Apart) and (flow.event_type, flow.via) == (event_type, rule.via)) == bool(goes)


def test_headers_that_are_null_are_left_out_of_nothing(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    connection.execute("ALTER TABLE openoutbox_events ALTER headers DROP NOT NULL")
    connection.execute("INSERT INTO openoutbox_events VALUES (gen_random_uuid(), 't', NULL, '', NULL)")
    assert left_out(connection, Apart("t", "d", "", "", ("region",), ("",), "%")) == set()


@pytest.mark.parametrize(
    ("to", "patterns", "why"),
    [
        ("{header:X-Raw-Headers}", 1, f"{RAW_HEADERS} is not in the table"),
        ("{header:region}", MOST_PATTERNS + 1, "the endpoints have more than 100 patterns"),
        ("\0{header:region}", 1, "a name has a NUL"),
        ("{header:region}", MOST_PATTERNS, ""),
    ],
)
def test_what_sql_cannot_say_is_told_by_type(to: str, patterns: int, why: str) -> None:
    rule = Rule(1, "*", read_template(to, ""), "hooks")
    hooks = Routes([Rule(number, f"{number}*", PLAIN, "hook") for number in range(patterns)], default="other")
    routes = Routes([rule], default="hooks", further={"hooks": hooks})
    event = OutboxEvent(EventId("1"), "t", None, b"", '{"region": "5", "X-Raw-Headers": "5"}', 0, 0.0)
    assert routes.inseparable(rule) == why
    assert isinstance(routes.flow_of(event), str) == bool(why)


EU = Apart("a", "queues", "d.eu", "d.", ("region",), ("",), "d.eu")


@pytest.fixture(params=[None, KeyOrder.SKIP], ids=["without order", "in order"])
async def storage(request: pytest.FixtureRequest, outbox: Outbox) -> AsyncIterator[PostgresOutbox]:
    extend(outbox)
    if request.param is not None:
        add_extension(outbox.owner_url, TableName(), "key-order")
    storage = PostgresOutbox(storage_options(outbox.relay_url, "r", key_order=request.param, fan_out=True))
    await storage.open()
    yield storage
    await storage.close()


def insert(outbox: Outbox, region: str | None, key: str | None = None, acknowledged_by: str | None = None) -> None:
    columns = "event_id, event_type, payload, headers, partition_key, acknowledged_by"
    values = ["{}" if region is None else json.dumps({"region": region}), key, acknowledged_by and [acknowledged_by]]
    with outbox.database.connect() as connection:
        sql = f"INSERT INTO openoutbox_events ({columns}) VALUES (gen_random_uuid(), 'a', '', %s, %s, %s)"
        connection.execute(sql, values)


async def claimed(storage: PostgresOutbox) -> list[str | None]:
    """The regions of what a claim brings."""
    claim = await storage.claim(10, ANY_BYTES)
    return [json.loads(event.headers).get("region") for event in claim.events]


async def test_what_waits_for_one_destination_keeps_its_key_and_no_other(
    outbox: Outbox, storage: PostgresOutbox, request: pytest.FixtureRequest
) -> None:
    in_order = "in order" in request.node.name
    for region, key in [("us", "one"), ("eu", "one"), ("us", "one"), (None, "two"), ("eu", None), ("us", None)]:
        insert(outbox, region, key)
    storage.leave_out([EU])
    first = sorted(map(str, await claimed(storage)))
    assert first == ["None", "us", "us", *([] if in_order else ["us"])]
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED' WHERE status = 'DELIVERING'")
    assert await claimed(storage) == []
    await storage.look()
    storage.leave_out([])
    assert sorted(map(str, await claimed(storage))) == ["eu", "eu", *(["us"] if in_order else [])]


async def test_in_part_it_is_what_others_have(outbox: Outbox, storage: PostgresOutbox) -> None:
    for region, acknowledged_by in [("eu", "main"), ("eu", None), ("us", "main")]:
        insert(outbox, region, acknowledged_by=acknowledged_by)
    storage.leave_out([], [EU])
    assert sorted(map(str, await claimed(storage))) == ["eu", "us"]
    storage.leave_out([EU])
    assert await claimed(storage) == []
    storage.leave_out([])
    assert await claimed(storage) == ["eu"]


async def test_claims_begin_behind_it(outbox: Outbox, storage: PostgresOutbox) -> None:
    for _ in range(30):
        insert(outbox, "eu", "one")
    outbox.database.run("UPDATE openoutbox_events SET available_at = NOW() - INTERVAL '1 hour'")
    storage.leave_out([EU])
    await storage.look()
    insert(outbox, "us", "two")
    assert await claimed(storage) == ["us"]
    storage.leave_out([])
    assert "eu" in await claimed(storage)
