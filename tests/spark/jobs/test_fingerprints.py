"""Headers as ``reconcile`` expects them are those that the relay sends."""

from __future__ import annotations

import hashlib

import pytest

from relay.brokers.kafka.headers import EVENT_ID_HEADER, message_headers
from relay.core.event import EventId, OutboxEvent
from relay.spark.jobs.reconcile import fingerprints
from relay.spark.jobs.reconcile.fingerprints import expected_headers


def sent(headers: str, ignored: tuple[str, ...]) -> bytes:
    """The sum of what the publisher makes of a headers column, its own header left out."""
    event = OutboxEvent(EventId("00000000-0000-0000-0000-000000000001"), "t", None, b"", headers, 0, 0.0)
    pairs = [
        (name, value if isinstance(value, bytes) else (value or "").encode())
        for name, value in message_headers(event)
        if name != EVENT_ID_HEADER and name.lower() not in ignored
    ]
    texts = sorted(f"{name.encode().hex()}={value.hex()}".upper() for name, value in pairs)
    return hashlib.sha256(",".join(texts).encode()).digest()


@pytest.mark.parametrize(
    "headers",
    [
        "{}",
        '{"a": "b", "n": 12345678901234567890123, "nested": {"x": [1, 2.50]}, "none": null}',
        '{"x-event-id": "mine", "X-EVENT-ID": "too", "é": "ü"}',
        '{"replay_id": "r", "Replay_ID": "s", "kept": ""}',
        '["no", "object"]',
        '"text"',
    ],
)
def test_expected_headers_are_the_publishers(headers: str) -> None:
    assert expected_headers(headers, ("replay_id",)) == sent(headers, ("replay_id",))


def test_the_identity_bears_one_name() -> None:
    assert fingerprints.EVENT_ID_HEADER == EVENT_ID_HEADER
