"""What can be an event, and what is refused before it reaches a transaction."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoutbox import EventError, NewEvent, insert_rows, insert_statement, uuid7
from openoutbox.identity import uuid7_milliseconds
from openoutbox.names import TableName

ID = UUID("0190b0a0-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        ("naïve", "naïve".encode()),
        ("", b""),
        ({"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode()),
        (MappingProxyType({"a": MappingProxyType({})}), b'{"a":{}}'),
        ([1, 2], b"[1,2]"),
        (7, b"7"),
        (True, b"true"),
    ],
)
def test_a_payload_becomes_bytes(payload: Any, body: bytes) -> None:
    assert NewEvent("user.signup", payload).body == body


def test_what_was_handed_in_may_change_afterwards() -> None:
    payload, headers = {"a": 1}, {"h": "1"}
    event = NewEvent("user.signup", payload, headers=headers)
    payload["a"], headers["h"] = 2, "2"
    assert (event.body, event.headers_json) == (b'{"a":1}', '{"h":"1"}')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"event_type": ""}, "event_type: empty"),
        ({"event_type": "a\x00b"}, "event_type: a NUL"),
        ({"event_type": "a\ud800"}, "event_type: a lone surrogate"),
        ({"event_type": 7}, "event_type: a int"),
        ({"payload": None}, "payload: None"),
        ({"payload": {"at": object()}}, "payload: cannot be written as JSON: a object"),
        ({"payload": {"n": float("nan")}}, "payload: cannot be written as JSON"),
        ({"payload": {"b": b"x"}}, "payload: cannot be written as JSON: a bytes"),
        ({"payload": "\ud800"}, "payload: a lone surrogate"),
        ({"partition_key": "k\x00"}, "partition_key: a NUL"),
        ({"partition_key": 7}, "partition_key: a int"),
        ({"headers": [("a", "b")]}, "headers: a list"),
        ({"headers": None}, "headers: a NoneType"),
        ({"headers": {7: "x"}}, "headers: the name 7"),
        ({"headers": {"a": "\x00"}}, "headers: a NUL"),
        ({"headers": {"a": "\\\x00"}}, "headers: a NUL"),
        ({"headers": {"a": "\ud800"}}, "headers: a lone surrogate"),
        ({"headers": {"a": {1, 2}}}, "headers: cannot be written as JSON"),
        ({"event_id": "not-one"}, "event_id: 'not-one'"),
        ({"event_id": None}, "event_id: None"),
        ({"delay": timedelta(seconds=-1)}, "delay: .* negative"),
        ({"delay": timedelta(days=40_000)}, "delay: .* hundred years"),
        ({"delay": 5}, "delay: a int"),
        ({"available_at": datetime(2026, 1, 1)}, "available_at: no time zone"),  # noqa: DTZ001
        ({"available_at": "2026-01-01"}, "available_at: a str"),
        (
            {"available_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))},
            "available_at: .* years 1 to 9999",
        ),
        (
            {"available_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))},
            "available_at: .* years 1 to 9999",
        ),
        ({"payload": {1: "a", "1": "b"}}, "payload: .* two names of one object have the same JSON form"),
        ({"payload": [{"a": {None: 1, "null": 2}}]}, "payload: .* two names of one object"),
        ({"headers": {"a": {True: 1, "true": 2}}}, "headers: .* two names of one object"),
        ({"unique": 7}, "unique: a int"),
        ({"unique": "order-7", "event_id": ID}, "unique: set together with event_id"),
        (
            {"delay": timedelta(1), "available_at": datetime(2026, 1, 1, tzinfo=UTC)},
            "delay: set together with available_at",
        ),
    ],
)
def test_what_no_row_can_hold_is_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"event_type": "user.signup", "payload": b"x"} | arguments
    with pytest.raises(EventError, match=message):
        NewEvent(**whole)


def test_endless_nesting_is_refused_as_unserialisable() -> None:
    endless: dict[str, object] = {}
    endless["self"] = endless
    with pytest.raises(EventError, match="payload: cannot be written as JSON"):
        NewEvent("user.signup", endless)


def test_a_backslash_before_u0000_is_no_nul() -> None:
    assert json.loads(NewEvent("a", b"", headers={"a": "\\u0000"}).headers_json) == {"a": "\\u0000"}


@given(st.dictionaries(st.text(), st.text()))
def test_headers_pass_or_are_refused_exactly_as_postgresql_would(headers: dict[str, str]) -> None:
    text = "".join(headers) + "".join(headers.values())
    bad = "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text)
    try:
        event = NewEvent("a", b"", headers=headers)
    except EventError:
        assert bad
    else:
        assert not bad
        assert json.loads(event.headers_json) == headers


def test_repr_shows_neither_payload_nor_headers() -> None:
    shown = repr(NewEvent("user.signup", "hunter2", headers={"token": "hunter3"}))
    assert "user.signup" in shown
    assert "hunter" not in shown


def test_an_id_may_be_given_as_text() -> None:
    event = NewEvent("a", b"", event_id=str(ID))  # type: ignore[arg-type]
    assert event.event_id == ID


def test_a_text_that_is_unique_gives_one_id() -> None:
    event = NewEvent("order.placed", b"", unique="order-7/placed")
    again = NewEvent("order.placed", b"", unique="order-7/placed")
    assert event == again
    assert event.event_id == UUID("b045ecf9-41a1-5a4d-a369-98516b8858af")
    assert NewEvent("order.placed", b"", unique="order-8/placed").event_id != event.event_id
    assert replace(event, event_type="order.moved").event_id == event.event_id


def test_a_time_is_kept_in_utc() -> None:
    """An offset with seconds, which PostgreSQL reads and some drivers do not send."""
    at = datetime(1900, 1, 1, tzinfo=timezone(timedelta(hours=1, seconds=20)))
    kept = NewEvent("a", b"", available_at=at).available_at
    assert kept == at
    assert kept is not None
    assert kept.tzinfo is UTC


HELD = [{"delay": timedelta(hours=2)}, {"available_at": datetime.now(UTC) + timedelta(days=30)}]


@pytest.mark.parametrize("held", HELD, ids=["delay", "available_at"])
def test_a_long_delay_that_may_hold_its_key_is_warned_of_once(
    held: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    event_type = f"order.due.{next(iter(held))}"
    for key in ("7", "8"):
        NewEvent(event_type, b"", partition_key=key, **held)
    [warning] = caplog.messages
    assert event_type in warning
    assert "ORDERING=key" in warning
    assert "openoutbox_cancel" in warning


def test_what_holds_no_key_or_not_for_long_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    NewEvent("order.due", b"", delay=timedelta(days=30))
    NewEvent("order.due", b"", partition_key="7", delay=timedelta(hours=1))
    NewEvent("order.due", b"", partition_key="7", available_at=datetime(2001, 1, 1, tzinfo=UTC))
    assert caplog.messages == []


def test_names_that_are_no_strings_are_written_as_json_does() -> None:
    assert NewEvent("a", {1: {"b": [{None: 2}]}}).body == b'{"1":{"b":[{"null":2}]}}'  # type: ignore[dict-item]


def test_events_with_one_content_are_equal_and_hash_alike() -> None:
    one, other = (NewEvent("a", {"x": 1}, event_id=ID) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1


def test_ids_are_version_7_and_ascend() -> None:
    ids = [uuid7() for _ in range(2000)]
    assert {(id_.version, id_.variant) for id_ in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == len(ids)
    stamps = [id_.int >> 64 for id_ in ids]
    assert stamps == sorted(stamps)
    milliseconds = ids[0].int >> 80
    assert abs(datetime.now(UTC).timestamp() - milliseconds / 1000) < 60


def test_an_id_of_another_time_holds_it() -> None:
    at = 1_773_144_000_123
    ids = [uuid7(at) for _ in range(200)]
    assert {(id_.version, id_.variant, uuid7_milliseconds(id_)) for id_ in ids} == {(7, "specified in RFC 4122", at)}
    assert len({id_.int >> 64 & 0xFFF for id_ in ids}) > 20
    assert len(set(ids)) == len(ids)
    assert uuid7_milliseconds(uuid4()) is None


def test_rows_are_parallel_lists_in_the_order_given() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    first = NewEvent("a", b"1", partition_key="k", headers={"h": 1}, delay=timedelta(milliseconds=1500))
    second = NewEvent("b", b"2", available_at=at)
    assert insert_rows([first, second]) == {
        "event_ids": [str(first.event_id), str(second.event_id)],
        "event_types": ["a", "b"],
        "partition_keys": ["k", None],
        "payloads": [b"1", b"2"],
        "headers": ['{"h":1}', "{}"],
        "delays": [1.5, None],
        "available_ats": [None, at],
    }


def test_one_event_given_twice_is_inserted_once() -> None:
    event = NewEvent("a", b"1")
    assert insert_rows([event, event])["event_ids"] == [str(event.event_id)]


def test_one_id_for_two_events_is_refused() -> None:
    with pytest.raises(EventError, match=f"event_id: {ID} is the same for two different events"):
        insert_rows([NewEvent("a", b"1", event_id=ID), NewEvent("a", b"2", event_id=ID)])


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(EventError, match="events: a dict among them"):
        insert_rows([{"event_type": "a"}])  # type: ignore[list-item]


def test_the_statement_names_the_table_quoted() -> None:
    assert "INSERT INTO openoutbox_events " not in insert_statement(TableName.parse("Shop.Orders"))
    assert 'INSERT INTO "Shop"."Orders" ' in insert_statement(TableName.parse("Shop.Orders"))


def test_importing_the_client_loads_no_driver_and_no_broker_library() -> None:
    code = "import openoutbox, sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"psycopg", "sqlalchemy", "confluent_kafka", "nats", "redis", "pydantic"} & set(ran.stdout.split())
