"""Values on their way into and out of PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from struct import pack

import pytest

from relay.postgres.codec import (
    EPOCH_2000_US,
    FENCES,
    MOMENTS,
    Moment,
    MomentLoader,
    decode_json,
    decode_time,
    encode_json,
    storable_text,
    text_array,
)
from tests.support.fixtures.postgres import Database

TIME = datetime(2026, 10, 25, 0, 30, 0, 123456, UTC)
LARGEST = 2**63 - 1


def binary(time: datetime) -> bytes:
    """As PostgreSQL sends it."""
    return pack("!q", (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) - EPOCH_2000_US)


def test_a_time_is_exact_and_in_utc() -> None:
    assert decode_time(binary(TIME)) == TIME
    assert decode_time(binary(TIME)).tzinfo is UTC


@pytest.mark.parametrize(
    ("microseconds", "moment"),
    [(LARGEST, "infinity"), (-LARGEST - 1, "-infinity"), (LARGEST - 1, "infinity"), (1 - LARGEST, "-infinity")],
)
def test_what_the_calendar_does_not_have_is_text(microseconds: int, moment: Moment) -> None:
    with pytest.raises(OverflowError):
        decode_time(pack("!q", microseconds))
    assert MomentLoader(0).load(pack("!q", microseconds)) == moment


def test_json_is_text_as_it_is() -> None:
    assert encode_json({"k": "\N{SNOWMAN}"}) == '{"k": "\N{SNOWMAN}"}'
    assert decode_json(b'{"k": "\xe2\x98\x83"}') == decode_json('{"k": "\N{SNOWMAN}"}') == {"k": "\N{SNOWMAN}"}


def test_text_that_postgresql_refuses_is_made_storable() -> None:
    assert storable_text("a\x00b\ud800") == "a\N{REPLACEMENT CHARACTER}b?"


def test_arrays_and_times_are_what_the_server_reads_and_sends(database: Database) -> None:
    texts = ["", "NULL", None, '"\\{},', "\N{SNOWMAN}", "a b", "\n"]
    with database.connect() as connection:
        assert connection.execute("SELECT %s::text[]", [text_array(texts)]).fetchone() == (texts,)
        connection.execute("SET timezone = 'Europe/Berlin'")
        for adapters in (FENCES, MOMENTS):
            with connection.cursor(binary=True) as cursor:
                cursor.adapters.register_loader("timestamptz", adapters.get_loader(1184, 1))  # type: ignore[arg-type]
                assert cursor.execute("SELECT %s::timestamptz", [TIME]).fetchone() == (TIME,)
