"""The body and the attributes of a message (docs/reference/messages.md#sqs-and-sns).

A body is Unicode text without most control characters, and never empty. A payload that is such text is sent as it is;
any other in base64, and an empty one as a hyphen, and ``X-Payload-Encoding`` says so.

A message has ten attributes at most: an eleventh would make SNS drop it on the way to a queue with raw delivery. What
finds no room, or what an attribute cannot hold (an empty value, a control character, a name with a space), is a member
of the JSON object in ``X-More-Headers``, the relay's own partition key included. So nothing is lost. A user's header
with a name of the relay's is sent as ``X-User-…``. A name that is already used gets ``X-`` in front until it is unique.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Final, NamedTuple

from relay.core.event import OutboxEvent
from relay.core.headers import Header, wire_headers
from relay.core.remembered import remembered

ID_ATTRIBUTE: Final = "X-Event-ID"
KEY_ATTRIBUTE: Final = "X-Partition-Key"
ENCODING_ATTRIBUTE: Final = "X-Payload-Encoding"
MORE_ATTRIBUTE: Final = "X-More-Headers"
MOST_ATTRIBUTES: Final = 10

_OWN: Final = frozenset(name.lower() for name in (ID_ATTRIBUTE, KEY_ATTRIBUTE, ENCODING_ATTRIBUTE, MORE_ATTRIBUTE))
_TYPE_BYTES: Final = len("String")
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME: Final = re.compile(r"(?!(?:aws|amazon)\.)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.IGNORECASE)
_LONGEST_NAME: Final = 256


class AwsMessage(NamedTuple):
    """What is sent for one event."""

    body: str
    attributes: dict[str, str]
    size: int
    """Bytes that count: the body, and the name, type and value of each attribute."""


def to_message(event: OutboxEvent) -> AwsMessage:
    """Return the message of an event."""
    body, encoding = _body(event.payload)
    attributes = _attributes(event, encoding)
    size = sum(len(name) + _TYPE_BYTES + len(value.encode()) for name, value in attributes.items())
    return AwsMessage(body, attributes, size + len(body.encode()))


def _body(payload: bytes) -> tuple[str, str | None]:
    """The body, and the encoding where it is not the payload itself."""
    if not payload:
        return "-", "empty"
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _FORBIDDEN.search(text) is None:
        return text, None
    return base64.b64encode(payload).decode(), "base64"


def _attributes(event: OutboxEvent, encoding: str | None) -> dict[str, str]:
    attributes = {ID_ATTRIBUTE: str(event.event_id)}
    if encoding is not None:
        attributes[ENCODING_ATTRIBUTE] = encoding
    headers = _headers(event)
    fit = [header for header in headers if _fits(*header)]
    room = MOST_ATTRIBUTES - len(attributes)
    if len(fit) < len(headers) or len(fit) > room:
        fit = fit[: room - 1]
        attributes[MORE_ATTRIBUTE] = json.dumps({name: value for name, value in headers if (name, value) not in fit})
    attributes.update(fit)
    return attributes


def _headers(event: OutboxEvent) -> list[Header]:
    """The partition key and the user's headers, each under a name of its own."""
    headers: list[Header] = [] if event.partition_key is None else [(KEY_ATTRIBUTE, event.partition_key)]
    if event.headers != "{}":
        taken = {KEY_ATTRIBUTE}
        for name, value in wire_headers(event.headers):
            safe = safe_name(name)
            while safe in taken:
                safe = f"X-{safe}"
            taken.add(safe)
            headers.append((safe, value))
    return headers


@remembered
def safe_name(name: str) -> str:
    """Return a user's header name, which never is one of the relay's."""
    return f"X-User-{name}" if name.lower() in _OWN else name


@remembered
def _is_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def _fits(name: str, value: str) -> bool:
    """Whether an attribute can hold this header."""
    return bool(value) and _is_name(name) and _FORBIDDEN.search(value) is None
