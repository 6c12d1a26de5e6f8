"""The headers of a webhook (docs/reference/messages.md#headers): the relay's own, then the user's, each with a prefix.

The rules:

- A user's header ``name`` is sent as ``X-User-name``, so none can replace one of ours or steer the transport. Only the
  three of W3C's trace context, ``traceparent``, ``tracestate`` and ``baggage``, keep their names. A message
  format has put the prefix before what would be an attribute, which gets no second one.
- A name may hold RFC 9110's token characters, a value visible ASCII characters with blanks and tabs between them.
  Anything else is percent-encoded, byte by byte of its UTF-8. A name or value in which anything is encoded has its
  ``%`` encoded too, so that decoding it gives the original; one in which nothing is encoded is sent unchanged.
- HTTP tells names apart without regard to case: of two that meet, the later one gets ``X-`` after the prefix.
- Servers refuse requests with many bytes of headers. User headers beyond ``_MOST_BYTES`` are left out, and
  ``X-Headers-Omitted`` says how many: a header is never a reason to lose an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

from relay.core.errors import OutboxError
from relay.core.event import OutboxEvent
from relay.core.formats.cloudevents import CONTENT_TYPE, HTTP
from relay.core.formats.message import FormattedMessage
from relay.core.headers import Header, wire_headers
from relay.core.remembered import remembered

TYPE_HEADER: Final = "X-Event-Type"
KEY_HEADER: Final = "X-Partition-Key"
PREFIX: Final = "X-User-"
OMITTED_HEADER: Final = "X-Headers-Omitted"
EMPTY_NAME: Final = "X-Empty-Name"

_OPEN: Final = frozenset({"traceparent", "tracestate", "baggage"})
_ATTRIBUTES: Final = frozenset(
    {"id", *(HTTP.prefix + name for name in ("specversion", "id", "source", "type", "time", "subject"))}
)
"""What a message format sets of the row's columns, and so for every event."""
_MOST_BYTES: Final = 6144  # many servers stop at 8 KiB, the request line and our own headers included
_AROUND: Final = len(": \r\n")  # bytes of a line besides name and value
_TOKEN: Final = "!#$&'*+-.^_`|~"  # noqa: S105  # the RFC's term, not a secret
_VISIBLE: Final = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~ \t"
_GOOD_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_GOOD_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")
_LINES: Final = re.compile(rf"(?:{_GOOD_NAME.pattern}: [\t -~]*\r\n)*")
_ENDS: Final = re.compile(r"^[ \t]+|[ \t]+$")


class UnsendableHeader(OutboxError):
    """A name or a value that would end its line, or that HTTP does not allow."""


def lines_of(headers: Sequence[Header]) -> bytes:
    """The headers as lines of a request. Raises UnsendableHeader."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if not _LINES.fullmatch(lines) or lines.count("\n") != len(headers):
        raise UnsendableHeader("a header has characters that HTTP does not allow")
    return lines.encode("ascii")


def message_headers(event: OutboxEvent, message: FormattedMessage | None = None) -> list[Header]:
    """Event type, key and the user's headers; of ``message``, where a format made one, all but the content type."""
    headers: list[Header] = [(TYPE_HEADER, _encode_type(event.event_type))]
    if event.partition_key is not None:
        headers.append((KEY_HEADER, encode_value(event.partition_key)))
    extensions: list[Header] = []
    if message is not None:
        headers += [header for header in message.own if header[0] in _ATTRIBUTES]
        extensions = [(name, value) for name, value in message.own if name not in (CONTENT_TYPE, *_ATTRIBUTES)]
    if event.headers != "{}":
        others = () if message is None else [(_bare(name), value) for name, value in message.others]
        headers += _user_headers(wire_headers(event.headers) if message is None else others, extensions)
    return headers


def _bare(name: str) -> str:
    """The name as the row has it, where a message format has put the prefix before what would be an attribute."""
    bare = name.removeprefix(PREFIX)
    return bare if bare.lower().startswith((HTTP.prefix, CONTENT_TYPE)) else name


def _user_headers(users: Iterable[Header], extensions: Iterable[Header]) -> list[Header]:
    """``extensions`` are the user's headers that are attributes of a CloudEvent, as they are sent."""
    headers = [*extensions, *[(encode_name(name), encode_value(value)) for name, value in users]]
    size = sum([len(name) + len(value) for name, value in headers]) + _AROUND * len(headers)
    if size <= _MOST_BYTES and len({name.lower() for name, _ in headers}) == len(headers):
        return headers
    return _fitting(headers)


def _fitting(candidates: Iterable[Header]) -> list[Header]:
    """Each under a name of its own, as long as there is room."""
    headers: list[Header] = []
    taken: set[str] = set()
    room, omitted = _MOST_BYTES, 0
    for safe, encoded in candidates:
        unique = safe
        while unique.lower() in taken:
            unique = f"{PREFIX}X-{unique.removeprefix(PREFIX)}"
        size = len(unique) + len(encoded) + _AROUND
        if size > room:
            omitted += 1
            continue
        room -= size
        taken.add(unique.lower())
        headers.append((unique, encoded))
    if omitted:
        headers.append((OMITTED_HEADER, str(omitted)))
    return headers


@remembered
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


_encode_type: Final = remembered(encode_value)
