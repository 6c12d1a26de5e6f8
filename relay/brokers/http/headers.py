"""The headers of a webhook (docs/reference/messages.md#headers): the relay's own, then the user's, each with a prefix.

The rules:

- A user's header ``name`` is sent as ``X-User-name``, so none can replace one of ours or steer the transport. Only the
  three of W3C's trace context, ``traceparent``, ``tracestate`` and ``baggage``, keep their names.
- A name may hold RFC 9110's token characters, a value visible ASCII characters with blanks and tabs between them.
  Anything else is percent-encoded, byte by byte of its UTF-8. A name or value in which anything is encoded has its
  ``%`` encoded too, so that decoding it gives the original; one in which nothing is encoded is sent unchanged.
- HTTP tells names apart without regard to case: of two that meet, the later one gets ``X-`` after the prefix.
- Servers refuse requests with many bytes of headers. User headers beyond ``_MOST_BYTES`` are left out, and
  ``X-Headers-Omitted`` says how many: a header is never a reason to lose an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from relay.core.event import OutboxEvent
from relay.core.formats.cloudevents import CONTENT_TYPE
from relay.core.formats.message import FormattedMessage
from relay.core.headers import Header, wire_headers

TYPE_HEADER: Final = "X-Event-Type"
KEY_HEADER: Final = "X-Partition-Key"
PREFIX: Final = "X-User-"
OMITTED_HEADER: Final = "X-Headers-Omitted"
EMPTY_NAME: Final = "X-Empty-Name"

_OPEN: Final = frozenset({"traceparent", "tracestate", "baggage"})
_MOST_BYTES: Final = 6144  # many servers stop at 8 KiB, the request line and our own headers included
_TOKEN: Final = "!#$&'*+-.^_`|~"  # noqa: S105  # the RFC's term, not a secret
_VISIBLE: Final = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~ \t"
_GOOD_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_GOOD_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")
_ENDS: Final = re.compile(r"^[ \t]+|[ \t]+$")


def message_headers(event: OutboxEvent, message: FormattedMessage | None = None) -> list[Header]:
    """Event type, key and the user's headers; of ``message``, where a format made one, all but the content type."""
    headers: list[Header] = [(TYPE_HEADER, encode_value(event.event_type))]
    if event.partition_key is not None:
        headers.append((KEY_HEADER, encode_value(event.partition_key)))
    if message is not None:
        headers += [header for header in message.own if header[0] != CONTENT_TYPE]
    if event.headers != "{}":
        headers += _user_headers(wire_headers(event.headers) if message is None else message.others)
    return headers


def _user_headers(users: Iterable[Header]) -> list[Header]:
    headers: list[Header] = []
    taken: set[str] = set()
    room, omitted = _MOST_BYTES, 0
    for name, value in users:
        safe, encoded = encode_name(name), encode_value(value)
        while safe.lower() in taken:
            safe = f"{PREFIX}X-{safe.removeprefix(PREFIX)}"
        size = len(safe) + len(encoded) + 4
        if size > room:
            omitted += 1
            continue
        room -= size
        taken.add(safe.lower())
        headers.append((safe, encoded))
    if omitted:
        headers.append((OMITTED_HEADER, str(omitted)))
    return headers


@lru_cache(maxsize=4096)
def encode_name(name: str) -> str:
    """Return a user's header name as it is sent, prefix included."""
    if name.lower() in _OPEN:
        return name
    return PREFIX + (name if _GOOD_NAME.fullmatch(name) else quote(name, safe=_TOKEN) or EMPTY_NAME)


def encode_value(value: str) -> str:
    """Return a value as it is sent."""
    if _GOOD_VALUE.fullmatch(value):
        return value
    return _ENDS.sub(lambda match: quote(match.group()), quote(value, safe=_VISIBLE))
