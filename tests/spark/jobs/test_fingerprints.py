"""Headers as ``reconcile`` expects them are those that the relay sends."""

from __future__ import annotations

import hashlib

import pytest

from relay.brokers.kafka.headers import EVENT_ID_HEADER, KafkaHeaders, formatted_headers, message_headers
from relay.core.event import EventId, OutboxEvent
from relay.core.formats import cloudevents
from relay.spark.jobs.reconcile import fingerprints
from relay.spark.jobs.reconcile.fingerprints import expected_headers


def sent(headers: str, ignored: tuple[str, ...]) -> bytes:
    """The sum of what the publisher makes of a headers column, its own header left out."""
    event = OutboxEvent(EventId("00000000-0000-0000-0000-000000000001"), "t", None, b"", headers, 0, 0.0)
    return digest(message_headers(event), ignored)


def digest(headers: KafkaHeaders, ignored: tuple[str, ...]) -> bytes:
    pairs = [
        (name, value if isinstance(value, bytes) else (value or "").encode())
        for name, value in headers
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


def test_the_sums_of_a_format_are_the_publishers() -> None:
    message_format = cloudevents.binary("/shop", cloudevents.KAFKA)
    event_id, headers = (
        "00000000-0000-0000-0000-000000000001",
        '{"tenant": "é", "x-event-id": "mine", "replay_id": "r"}',
    )
    event = OutboxEvent(EventId(event_id), "t", "k", b"{}", headers, 0, 0.0, None, 1795511941.123457)
    sent_headers = formatted_headers(event, message_format(event))
    payload_sum, headers_sum = fingerprints._formatted_sums(
        message_format, ("replay_id",), event_id, "t", "k", b"{}", headers, 1795511941123457
    )
    assert payload_sum == hashlib.sha256(b"{}").digest()
    assert headers_sum == digest(sent_headers, ("replay_id",))
    assert ("ce_time", "2026-11-24T09:19:01.123457Z") in sent_headers


def test_the_identity_bears_one_name() -> None:
    assert fingerprints.EVENT_ID_HEADER == EVENT_ID_HEADER
