"""An outbox made once: what a declared class becomes, by which rule, and what is refused before anything is sent."""

from __future__ import annotations

import asyncio
import enum
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pydantic
import pytest

from openoutbox import EnqueueRefused, EventError, NewEvent, Outbox, event
from tests.support.fixtures.database import Database

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Line:
    article: str
    price: Decimal


@event("order.placed", key="customer_id")
@dataclass(slots=True)
class Placed:
    customer_id: int
    lines: list[Line]


@event("order.placed", key="customer_id")
class PlacedModel(pydantic.BaseModel):
    customer_id: int
    lines: list[Line]


@event("order.placed", key="customer_id")
class PlacedStruct(msgspec.Struct):
    customer_id: int
    lines: list[Line]


class Renamed(msgspec.Struct, rename="camel"):
    unit_price: int


def encode(value: object) -> object:
    """What most applications write."""
    match value:
        case datetime():
            return value.isoformat()
        case Decimal() | uuid.UUID():
            return str(value)
        case enum.Enum():
            return value.value
    raise TypeError(f"no {type(value).__name__}")


def rows(outbox: Database) -> list[tuple[Any, ...]]:
    found = outbox.run(
        "SELECT event_type, partition_key, payload, headers FROM openoutbox_events ORDER BY event_type DESC"
    )
    return [(kind, key, json.loads(payload), headers) for kind, key, payload, headers in found]


@pytest.mark.parametrize("declared", [Placed, PlacedModel, PlacedStruct])
def test_objects_of_a_declared_class_are_events(outbox: Database, declared: Any) -> None:
    shop = Outbox(encode=encode, headers={"source": "shop"})
    with psycopg.connect(outbox.url) as connection:
        placed = declared(customer_id=7, lines=[Line("tea", Decimal("9.90"))])
        assert shop.enqueue(connection, placed).inserted == 1
        shop.enqueue(connection, [placed, NewEvent("audit", {"who": "ada"}, headers={"source": "audit", "n": 1})])
    body = {"customer_id": 7, "lines": [{"article": "tea", "price": "9.90"}]}
    assert rows(outbox) == [
        ("order.placed", "7", body, {"source": "shop"}),
        ("order.placed", "7", body, {"source": "shop"}),
        ("audit", None, {"who": "ada"}, {"source": "audit", "n": 1}),
    ]


def test_asynchronous_connections_too(outbox: Database) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(outbox.url) as connection:
            await Outbox(encode=encode).enqueue_async(connection, Placed(8, []), in_order=True)

    asyncio.run(run())
    assert rows(outbox) == [("order.placed", "8", {"customer_id": 8, "lines": []}, {})]


def test_another_table_and_headers_of_the_moment(outbox: Database) -> None:
    outbox.run('CREATE TABLE "Orders" (LIKE openoutbox_events INCLUDING ALL)')
    shop = Outbox(table="public.Orders", encode=encode, headers=lambda: {"tenant": "a"})
    with psycopg.connect(outbox.url) as connection:
        shop.enqueue(connection, Placed(9, []))
    assert outbox.run('SELECT headers FROM "Orders"') == [({"tenant": "a"},)]


@pytest.mark.parametrize("value", [AT, Decimal(1), uuid.uuid4(), Colour.RED])
def test_values_without_a_json_form_are_refused_unless_encode_knows_them(value: object) -> None:
    @event("order.placed")
    @dataclass
    class Placed:
        value: object

    with pytest.raises(EventError, match=rf"payload: .* a {type(value).__name__} has no JSON form.*Outbox\(encode"):
        Outbox().new(Placed(value))
    assert Outbox(encode=encode).new(Placed(value)).body
    with pytest.raises(EventError, match=r"payload: .*no bytes"):
        Outbox(encode=encode).new(Placed(b"\x00"))


def test_a_name_that_a_struct_gives_to_the_wire_is_kept() -> None:
    made = Outbox().new(event("price.set")(Renamed)(unit_price=3))
    assert json.loads(made.body) == {"unitPrice": 3}


def test_what_more_an_event_needs_is_given_with_it() -> None:
    shop = Outbox(headers={"source": "shop", "v": 1})
    first = shop.new(Placed(1, []), headers={"v": 2}, unique="order-1/placed", available_at=AT)
    again = shop.new(Placed(1, []), unique="order-1/placed")
    assert (first.event_id, first.available_at) == (again.event_id, AT)
    assert json.loads(first.headers_json) == {"source": "shop", "v": 2}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, r"a int, whose class is no event; declare it with @openoutbox\.event"),
        ([{"id": 1}], r"a dict, whose class is no event"),
        (event("order.placed", key="nobody")(Line)("tea", Decimal(1)), "has no 'nobody', which its @event names"),
    ],
)
def test_strangers_are_refused_before_anything_is_sent(outbox: Database, wrong: object, message: str) -> None:
    with psycopg.connect(outbox.url) as connection, pytest.raises(EventError, match=message):
        Outbox(encode=encode).enqueue(connection, wrong)
    assert rows(outbox) == []


def test_what_would_be_committed_alone_is_refused(outbox: Database) -> None:
    with psycopg.connect(outbox.url, autocommit=True) as connection:
        with pytest.raises(EnqueueRefused):
            Outbox().enqueue(connection, Placed(1, []))
        assert Outbox().enqueue(connection, Placed(1, []), autocommit=True).inserted == 1


@pytest.mark.parametrize("wrong", ["", "a\x00b", 3])
def test_a_wrong_type_is_refused_where_it_is_declared(wrong: Any) -> None:
    with pytest.raises(EventError, match="event_type"):
        event(wrong)
