"""How headers travel in NATS: encoded names and values, and the size of their block."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.brokers.nats.headers import encode_name, encode_value, header_block, message_headers
from tests.brokers.harness.base import make_event


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("trace-id", "trace-id"),
        ("a%b", "a%b"),
        ("two words", "two%20words"),
        ("co:lon 100%", "co%3Alon%20100%25"),
        ("ü", "%C3%BC"),
        ("", "X-Empty-Name"),
        ("Nats-Msg-Id", "X-Nats-Msg-Id"),
        ("nats-rollup", "X-nats-rollup"),
        ("X-Partition-Key", "X-User-X-Partition-Key"),
        ("x-partition-key", "X-User-x-partition-key"),
        ("Native", "Native"),
    ],
)
def test_names(name: str, sent: str) -> None:
    assert encode_name(name) == sent


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("", ""),
        ("a b", "a b"),
        ("100%", "100%"),
        ("a%20b", "a%20b"),
        ("a\r\nb", "a%0D%0Ab"),
        ("100%\n", "100%25%0A"),
        (" padded ", "%20padded%20"),
        ("\u00a0x", "%C2%A0x"),
        ("ü 🎉", "ü 🎉"),
    ],
)
def test_values(value: str, sent: str) -> None:
    assert encode_value(value) == sent


@given(st.text())
def test_an_encoded_value_is_one_line_and_decodes_to_the_original(value: str) -> None:
    sent = encode_value(value)
    assert not {"\r", "\n", "\x00"} & set(sent)
    assert sent == sent.strip()
    assert sent == value or unquote(sent) == value


@given(st.text())
def test_an_encoded_name_is_a_token(name: str) -> None:
    sent = encode_name(name)
    assert sent
    assert sent.isascii()
    assert not set(sent) & set(' :"()<>@,;\\/[]?={}\r\n\t')
    assert not sent.lower().startswith("nats-")


def test_names_that_meet_after_encoding_both_arrive() -> None:
    headers = message_headers(make_event("s", headers=json.dumps({"X-Nats-A": "1", "Nats-A": "2"})))
    assert list(headers.values())[1:] == ["1", "2"]


def test_the_header_block() -> None:
    event = make_event("s", key="k", headers='{"a": "ü\\n", "b": 1}')
    assert header_block(event) == (
        f"NATS/1.0\r\nNats-Msg-Id: {event.event_id}\r\nX-Partition-Key: k\r\na: ü%0A\r\nb: 1\r\n\r\n"
    )
