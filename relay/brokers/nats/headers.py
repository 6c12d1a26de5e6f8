"""The headers of a NATS message: the relay's own, then the user's, encoded where a line needs it.

The rules (docs/reference/messages.md#headers):

- A name may hold letters, digits and ``!#$%&'*+-.^_`|~`` (RFC 9110's token); whatever else is in it is
  percent-encoded, byte by byte of its UTF-8. The empty name is sent as ``X-Empty-Name``.
- A value may hold everything but line breaks and NUL, and cannot begin or end with blanks; those characters, where
  they stand in the way, are percent-encoded.
- A name or value in which anything is encoded has its ``%`` encoded too, so that decoding it gives the original. One
  in which nothing is encoded is sent unchanged, ``%`` included.
- A user's ``Nats-…`` (in any case) would be a command to the server and is sent as ``X-Nats-…``; a user's
  ``X-Partition-Key`` (in any case) is sent as ``X-User-X-Partition-Key``. A name that is already used gets
  ``X-`` in front until it is unique: nats-py takes a mapping.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.headers import wire_headers
from relay.core.remembered import remembered

ID_HEADER = "Nats-Msg-Id"
KEY_HEADER = "X-Partition-Key"
EMPTY_NAME = "X-Empty-Name"

_TOKEN = "!#$&'*+-.^_`|~"  # noqa: S105  # the RFC's term, not a secret
_GOOD_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_GOOD_VALUE = re.compile(r"(?!\s)[^\r\n\x00]*(?<!\s)")
_BREAKS = re.compile(r"[\r\n\x00%]|^\s+|\s+$")


def message_headers(event: OutboxEvent, message: FormattedMessage | None = None) -> dict[str, str]:
    """Return name to value, the relay's own first, as the library takes them.

    Of ``message``, where a format made one.
    """
    headers = {ID_HEADER: event.copy_id}
    if event.partition_key is not None:
        headers[KEY_HEADER] = encode_value(event.partition_key)
    if message is not None:
        headers.update(message.own)
    if event.headers != "{}":
        for name, value in wire_headers(event.headers) if message is None else message.others:
            safe = encode_name(name)
            while safe in headers:
                safe = f"X-{safe}"
            headers[safe] = encode_value(value)
    return headers


@remembered
def encode_name(name: str) -> str:
    """Return a user's header name as NATS can carry it, apart from the reserved names."""
    if not _GOOD_NAME.fullmatch(name):
        name = quote(name, safe=_TOKEN) or EMPTY_NAME
    lower = name.lower()
    if lower.startswith("nats-"):
        return f"X-{name}"
    return f"X-User-{name}" if lower == "x-partition-key" else name


def encode_value(value: str) -> str:
    """Return a header's value as NATS can carry it."""
    if value.isalnum():  # the most frequent kind; quicker than the pattern
        return value
    if _GOOD_VALUE.fullmatch(value):
        return value
    return _BREAKS.sub(lambda match: quote(match.group(), safe=""), value)


def header_block(event: OutboxEvent, message: FormattedMessage | None = None) -> str:
    """Return the message's headers as they stand on the wire; the server counts them against ``max_payload``."""
    lines = [f"{name}: {value}\r\n" for name, value in message_headers(event, message).items()]
    return f"NATS/1.0\r\n{''.join(lines)}\r\n"
