"""The frames of a message, as AMQP 0-9-1 writes them: publish, content header, body.

pamqp writes and reads every other frame. For these its general encoder takes six times the processor time, more than
the rest of the relay takes for an event (benchmarks/lab/README.md); the tests let pamqp read what is written
here.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from relay.brokers.rabbitmq.headers import content_type, header_table, message_headers
from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.outcome import Permanent

CHANNEL: Final = 1
"""The one channel of a connection."""
OVERHEAD: Final = 8
"""Bytes that a frame adds to what it carries."""
END: Final = 0xCE
"""The last byte of a frame."""
FRAME_START: Final = struct.Struct(">BHI")
"""Kind, channel, and bytes that follow, without the end."""
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8

_END: Final = bytes([END])
_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"  # class basic, method publish, a reserved number
_MANDATORY: Final = (b"\x00", b"\x01")  # whether a message that no queue takes is returned
# Class basic, no weight, the body's size; content type, headers, delivery mode and message id follow.
_CONTENT: Final = struct.Struct(">HHQH")
_BASIC: Final = 60
_FLAGS: Final = 1 << 15 | 1 << 13 | 1 << 12 | 1 << 7
_PERSISTENT: Final = b"\x02"
_LONGEST_KEY: Final = 255  # bytes of a routing key


def message_frames(
    event: OutboxEvent,
    exchange: str,
    frame_max: int,
    message: FormattedMessage | None = None,
    *,
    mandatory: bool = True,
) -> list[bytes] | Permanent:
    """The frames that publish an event, or why the server would cut the connection on them."""
    method = publish_frame(exchange, event.event_type, mandatory=mandatory)
    if method is None:
        return Permanent("BAD_ROUTING_KEY", f"the routing key is longer than {_LONGEST_KEY} bytes, AMQP's limit")
    headers = message_headers(event, message)
    kind, table, message_id = content_type(headers).encode(), header_table(headers), event.event_id.encode()
    payload = event.payload if message is None else message.payload
    properties = b"%s%c%s%s%s%c%s" % (
        _CONTENT.pack(_BASIC, 0, len(payload), _FLAGS),
        len(kind),
        kind,
        table,
        _PERSISTENT,
        len(message_id),
        message_id,
    )
    if len(properties) + OVERHEAD > frame_max:
        reason = f"{len(properties) + OVERHEAD} bytes of headers, over the server's frame_max of {frame_max}"
        return Permanent("FRAME_TOO_LARGE", reason)
    parts = [method, FRAME_START.pack(HEADER, CHANNEL, len(properties)), properties, _END]
    most = frame_max - OVERHEAD
    if 0 < len(payload) <= most:
        parts += (FRAME_START.pack(BODY, CHANNEL, len(payload)), payload, _END)
    else:
        for at in range(0, len(payload), most):
            piece = payload[at : at + most]
            parts += (FRAME_START.pack(BODY, CHANNEL, len(piece)), piece, _END)
    return parts


def publish_frame(exchange: str, routing_key: str, *, mandatory: bool) -> bytes | None:
    """The frame that begins a message; None for a routing key that is too long."""
    return _publish_frame(exchange, routing_key, mandatory=mandatory) if len(routing_key) <= _LONGEST_KEY else None


@lru_cache(maxsize=4096)
def _publish_frame(exchange: str, routing_key: str, *, mandatory: bool) -> bytes | None:
    key = routing_key.encode()
    if len(key) > _LONGEST_KEY:
        return None
    name = exchange.encode()
    method = b"%s%c%s%c%s%s" % (_PUBLISH, len(name), name, len(key), key, _MANDATORY[mandatory])
    return FRAME_START.pack(METHOD, CHANNEL, len(method)) + method + _END
