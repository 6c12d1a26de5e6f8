"""The headers of a RabbitMQ message (docs/reference/messages.md#headers), as AMQP's types: the relay's and the user's.

A header is a short string, the name, and a long string, the value, both in UTF-8. A name has at most 255 bytes: of a
longer one the first 255 are sent. RabbitMQ sends a message to the queues that ``CC`` and ``BCC`` name too, and refuses
one in which they are not lists, so these two are sent as ``X-CC`` and ``X-BCC``. A user's ``X-Partition-Key`` (in any
case) is sent as ``X-User-X-Partition-Key``. A name that is already used gets ``X-`` in front until it is unique.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.headers import Header, wire_headers
from relay.core.remembered import remembered

KEY_HEADER = "X-Partition-Key"
CONTENT_TYPE = "content-type"
"""The header, in any case, whose value is the message's content type too."""

_LONGEST = 255
_STEERING = ("CC", "BCC")
_LENGTH = struct.Struct(">I")


def message_headers(event: OutboxEvent, message: FormattedMessage | None = None) -> list[Header]:
    """Names and values, the relay's own first; of ``message``, where a format made one."""
    headers: list[Header] = [] if event.partition_key is None else [(KEY_HEADER, event.partition_key)]
    if message is not None:
        headers += message.own
    if event.headers != "{}":
        taken = {KEY_HEADER} if message is None else {KEY_HEADER, *dict(message.own)}
        for name, value in wire_headers(event.headers) if message is None else message.others:
            safe = safe_name(name)
            while safe in taken:
                safe = shorten(f"X-{safe}")
            taken.add(safe)
            headers.append((safe, value))
    return headers


def content_type(headers: Sequence[Header]) -> str:
    """The user's own, or that of any bytes."""
    for name, value in headers:
        if len(name) == len(CONTENT_TYPE) and name.lower() == CONTENT_TYPE and 0 < len(value.encode()) <= _LONGEST:
            return value
    return "application/octet-stream"


def header_table(headers: Sequence[Header]) -> bytes:
    """The headers as an AMQP table, with its length in front."""
    parts: list[bytes] = []
    for name, value in headers:
        text = value.encode()
        parts += (_name_field(name), _LENGTH.pack(len(text)), text)
    table = b"".join(parts)
    return _LENGTH.pack(len(table)) + table


@remembered
def safe_name(name: str) -> str:
    """Return a user's header name as RabbitMQ can carry it."""
    if name in _STEERING:
        return f"X-{name}"
    return f"X-User-{name}" if name.lower() == "x-partition-key" else shorten(name)


def shorten(name: str) -> str:
    """Cut a name that is too long, at the end of a character."""
    return name.encode()[:_LONGEST].decode(errors="ignore")


@remembered
def _name_field(name: str) -> bytes:
    """A name and the mark of a long string."""
    text = name.encode()
    return b"%c%sS" % (len(text), text)
