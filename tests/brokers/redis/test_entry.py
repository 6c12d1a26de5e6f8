"""The fields of one entry of a Redis stream."""

from __future__ import annotations

from hiredis import pack_command

from relay.brokers.redis.session import pieces, trimming, xadd
from tests.brokers.harness.base import make_event


def test_the_command_has_every_field() -> None:
    event = make_event("s", b"body", key="k", headers='{"a": "1", "n": 1.0}')
    fields = ["id", event.event_id, "payload", b"body", "partition_key", "k", "h:a", "1", "h:n", "1.0"]
    assert xadd(event) == ("XADD", "s", "*", *fields)


def test_a_null_key_is_no_field_and_an_empty_one_is() -> None:
    assert "partition_key" not in xadd(make_event("s"))
    assert xadd(make_event("s", key=""))[-2:] == ("partition_key", "")


def test_a_command_in_pieces_is_the_packed_command_and_holds_the_payload_itself() -> None:
    event = make_event("s", b"x" * 100_000, key="k\u00fc", headers='{"a": "\u00e9", "n": 1.0}')
    parts = list(pieces(event))
    assert b"".join(parts) == pack_command(xadd(event))  # type: ignore[arg-type]  # its stub has tuples of one
    assert any(part is event.payload for part in parts)


def test_a_command_that_trims_says_how_many_entries_stay_before_the_fields() -> None:
    event = make_event("s", b"x" * 100_000)
    trim = trimming(5000, ["other", "s*"], "s")
    assert xadd(event, None, trim) == (
        "XADD",
        "s",
        "MAXLEN",
        "~",
        "5000",
        "*",
        "id",
        event.event_id,
        "payload",
        event.payload,
    )
    assert b"".join(pieces(event, None, trim)) == pack_command(xadd(event, None, trim))  # type: ignore[arg-type]  # as above
    assert trimming(None, ["*"], "s") == trimming(5000, ["t*"], "s") == trimming(5000, [], "s") == ()
