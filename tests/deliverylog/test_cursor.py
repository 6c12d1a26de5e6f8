"""Cursors, without any store."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.deliverylog.cursor import ALPHABET, Position, base62, decode, encode, unbase62
from relay.deliverylog.errors import DeliveryLogError, InvalidCursor, VersionMismatch
from relay.deliverylog.times import from_ms, to_ms

ids = st.text(st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"]), max_size=60)
times = st.integers(-62_135_596_800_000, 253_402_300_799_999)
positions = st.builds(Position, times, ids, st.none() | ids, times, ids)


def test_the_published_example() -> None:
    assert encode("evt", Position(1768469400123, "evt_01")) == "58bHgF4Jrnp1JXuZLF0KHARo6i897Xsd6jdQpb"
    assert decode("58bHgF4Jrnp1JXuZLF0KHARo6i897Xsd6jdQpb", "evt") == Position(1768469400123, "evt_01")


@given(positions, st.sampled_from(["evt", "att"]))
def test_version_1_round_trips(position: Position, resource: str) -> None:
    cursor = encode(resource, position)
    assert set(cursor) <= set(ALPHABET)
    assert decode(cursor, resource) == position._replace(event_ms=0, event_id="")


@given(positions, st.sampled_from(["asc", "desc"]))
def test_version_2_round_trips(position: Position, order: str) -> None:
    assert decode(encode("att", position, version=2, order=order), "att", version=2, order=order) == position


@given(st.text(max_size=80))
def test_any_text_is_a_cursor_or_a_clear_error(text: str) -> None:
    valid = text.encode("utf-8", "replace").decode()
    for cursor in (text, base62(valid), base62(f"attv01:{valid}"), base62(f"attv01:5::{valid}")):
        with suppress(InvalidCursor, VersionMismatch):
            decode(cursor, "att")


@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1).filter(lambda text: text[0] != "\x00"))
def test_base62_round_trips(text: str) -> None:
    assert unbase62(base62(text)) == text


@given(times)
def test_milliseconds_round_trip(milliseconds: int) -> None:
    assert to_ms(from_ms(milliseconds)) == milliseconds


@pytest.mark.parametrize("version", [1, 2])
def test_versions_and_resources_are_distinguished(version: int) -> None:
    cursor = encode("att", Position(1, "x"), version=version)
    with pytest.raises(DeliveryLogError):
        decode(cursor, "evt", version=1)
    with pytest.raises(InvalidCursor):
        decode(cursor, "att", version=3 - version)
