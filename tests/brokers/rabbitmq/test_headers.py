"""How a user's headers travel over RabbitMQ (docs/reference/messages.md#headers)."""

from __future__ import annotations

import json
import uuid

import pytest

from relay.brokers.rabbitmq.headers import content_type, message_headers
from relay.core.event import EventId, OutboxEvent


def headers_of(headers: dict[str, object], key: str | None = None) -> list[tuple[str, str]]:
    return message_headers(OutboxEvent(EventId(str(uuid.uuid4())), "a", key, b"", json.dumps(headers), 0, 0.0))


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("plain", "plain"),
        ("", ""),
        ("two words: ü", "two words: ü"),
        ("CC", "X-CC"),
        ("BCC", "X-BCC"),
        ("cc", "cc"),
        ("x-partition-KEY", "X-User-x-partition-KEY"),
        ("n" * 300, "n" * 255),
        ("ü" * 200, "ü" * 127),
    ],
)
def test_a_name_travels_as_it_is_unless_it_steers_or_is_too_long(name: str, sent: str) -> None:
    assert headers_of({name: "v"}) == [(sent, "v")]


def test_ours_is_first_and_names_that_meet_both_arrive() -> None:
    headers = headers_of({"X-CC": "1", "CC": "2", "n" * 255: "3", "n" * 256: "4"}, key="k")
    assert headers[0] == ("X-Partition-Key", "k")
    assert dict(headers) == {
        "X-Partition-Key": "k",
        "X-CC": "1",
        "X-X-CC": "2",
        "n" * 255: "3",
        "X-" + "n" * 253: "4",
    }


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, "application/octet-stream"),
        ({"content-type": "text/plain"}, "text/plain"),
        ({"Content-Type": "application/json"}, "application/json"),
        ({"content-type": "x" * 256}, "application/octet-stream"),
        ({"content-type": ""}, "application/octet-stream"),
    ],
)
def test_the_content_type_is_the_users(headers: dict[str, object], expected: str) -> None:
    assert content_type(headers_of(headers)) == expected
