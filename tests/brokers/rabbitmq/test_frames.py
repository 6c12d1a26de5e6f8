"""What we write of AMQP, read by pamqp."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from relay.brokers.rabbitmq.frames import OVERHEAD, message_frames
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Permanent

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


def read(data: bytes) -> list[Any]:
    """Every frame of ``data``."""
    frames = []
    while data:
        size, channel, one = frame.unmarshal(data)
        assert channel == 1
        frames.append(one)
        data = data[size:]
    return frames


def event(payload: bytes = b"", key: str | None = None, headers: str = "{}", event_type: str = "a") -> OutboxEvent:
    return OutboxEvent(EventId(str(uuid.uuid4())), event_type, key, payload, headers, 0, 0.0)


@given(exchange=TEXT, routing_key=TEXT, payload=st.binary(max_size=9000), key=st.none() | TEXT, mandatory=st.booleans())
def test_another_library_reads_what_is_published(
    exchange: str, routing_key: str, payload: bytes, key: str | None, mandatory: bool
) -> None:
    sent = event(payload, key, '{"a": "ü", "n": 1}', routing_key)
    parts = message_frames(sent, exchange, 4096, mandatory=mandatory)
    assert not isinstance(parts, Permanent)
    method, header, *bodies = read(b"".join(parts))
    assert isinstance(method, commands.Basic.Publish)
    assert (method.exchange, method.routing_key, method.mandatory, method.immediate) == (
        exchange,
        routing_key,
        mandatory,
        False,
    )
    assert isinstance(header, ContentHeader)
    assert header.body_size == len(payload)
    properties = header.properties
    assert (properties.message_id, properties.delivery_mode) == (sent.event_id, 2)
    assert properties.content_type == "application/octet-stream"
    assert properties.headers == ({} if key is None else {"X-Partition-Key": key}) | {"a": "ü", "n": "1"}
    assert all(isinstance(body, ContentBody) and len(body.value) <= 4096 - OVERHEAD for body in bodies)
    assert b"".join(body.value for body in bodies) == payload


def test_limits_are_met_to_the_byte() -> None:
    for routing_key in ("x" * 255, "ü" * 127):
        assert not isinstance(message_frames(event(event_type=routing_key), "", 4096), Permanent)
    for routing_key in ("x" * 256, "ü" * 128):
        refused = message_frames(event(event_type=routing_key), "", 4096)
        assert isinstance(refused, Permanent)
        assert refused.code == "BAD_ROUTING_KEY"
    bare = message_frames(event(headers='{"a": ""}'), "", 4096)
    assert not isinstance(bare, Permanent)
    room = 4096 - OVERHEAD - len(bare[2])
    assert not isinstance(message_frames(event(headers=f'{{"a": "{"x" * room}"}}'), "", 4096), Permanent)
    refused = message_frames(event(headers=f'{{"a": "{"x" * (room + 1)}"}}'), "", 4096)
    assert isinstance(refused, Permanent)
    assert refused.code == "FRAME_TOO_LARGE"
