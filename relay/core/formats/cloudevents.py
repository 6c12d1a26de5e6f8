"""Events as CloudEvents 1.0, in binary and in structured mode (docs/reference/message-formats.md#cloudevents).

``binary`` puts each attribute into a header and leaves the body as it is; ``structured`` writes the whole event as one
JSON object. The attributes: id = event_id, source = CLOUDEVENTS_SOURCE, type = event_type, time = created_at, subject =
partition_key, datacontenttype, and an extension for each header of the application whose name and value allow it. All
other headers of the application stay headers, and so does ``traceparent``, which libraries for traces read there.

Text that no attribute may hold (control characters, nothing at all) is left out: the event is sent without it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from relay.core.durations import time_text
from relay.core.event import OutboxEvent
from relay.core.formats.message import USER_PREFIX, FormattedMessage, MessageFormat
from relay.core.headers import Header, wire_headers
from relay.core.json_text import refuse_constant
from relay.core.tracecontext import TRACEPARENT, TRACESTATE

CONTENT_TYPE: Final = "content-type"
STRUCTURED_TYPE: Final = "application/cloudevents+json; charset=UTF-8"
JSON_TYPE: Final = "application/json"
BYTES_TYPE: Final = "application/octet-stream"

_SET_BY_THE_RELAY: Final = frozenset(
    {"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "data", "data_base64"}
)
_BOTH: Final = (TRACEPARENT, TRACESTATE)
"""Attributes of the extension for traces, which stay headers as well."""
_NAME: Final = re.compile(r"[a-z0-9]{1,20}")
_VALUE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_MEDIA_TYPE: Final = re.compile(r"[!-~][ -~]{0,254}")
_JSON_MEDIA_TYPE: Final = re.compile(r"(?i)[^;]*[/+]json\s*(;.*)?")
_SPACE: Final = 16  # bytes in which a payload begins and ends, space included
_PLAIN: Final = re.compile(r"[!#$&-~]+")
_VISIBLE: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')

_json_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Binding(NamedTuple):
    """How a protocol carries attributes in headers."""

    prefix: str
    """Before an attribute's name."""
    content_type: str = CONTENT_TYPE
    """The header of ``datacontenttype``."""
    encode: Callable[[str], str] = str
    """Makes of an attribute's value that of a header."""
    also_read: tuple[str, ...] = ()
    """Other prefixes, in lower case, that consumers take for an attribute's."""


def percent_encoded(value: str) -> str:
    """An attribute's value where headers hold visible ASCII characters alone."""
    return value if _PLAIN.fullmatch(value) else quote(value, safe=_VISIBLE)  # quote takes four times as long


KAFKA: Final = Binding("ce_")
NATS: Final = Binding("ce-", "ce-datacontenttype", percent_encoded)
AMQP: Final = Binding("cloudEvents:", also_read=("cloudevents_",))
HTTP: Final = Binding("ce-", encode=percent_encoded)
REDIS: Final = Binding("ce_")
"""There is no official binding: the names are Kafka's."""


def binary(source: str, binding: Binding) -> MessageFormat:
    """The format that puts every attribute into a header, as ``binding`` says."""
    prefix, content_type, encode, _ = binding

    def message(event: OutboxEvent) -> FormattedMessage:
        extensions, others, media_type = _sorted_headers(event.headers, binding)
        own = [(prefix + name, encode(value)) for name, value in _attributes(event, source).items()]
        own += [(prefix + name, encode(value)) for name, value in extensions.items()]
        media_type = media_type or _apparent_type(event.payload)
        own.append((content_type, media_type if content_type == CONTENT_TYPE else encode(media_type)))
        return FormattedMessage(event.payload, own, others)

    return message


def structured(source: str, binding: Binding) -> MessageFormat:
    """The format that writes attributes and data as one JSON object."""

    def message(event: OutboxEvent) -> FormattedMessage:
        extensions, others, media_type = _sorted_headers(event.headers, binding)
        is_json = _is_json(event.payload) if media_type is None or _JSON_MEDIA_TYPE.fullmatch(media_type) else False
        attributes = _attributes(event, source)
        attributes["datacontenttype"] = media_type or (JSON_TYPE if is_json else BYTES_TYPE)
        start = _json_text(attributes | extensions)[:-1].encode()
        if is_json:
            payload = b'%s,"data":%s}' % (start, event.payload)
        else:
            payload = b'%s,"data_base64":"%s"}' % (start, base64.b64encode(event.payload))
        return FormattedMessage(payload, [(CONTENT_TYPE, STRUCTURED_TYPE)], others)

    return message


def _attributes(event: OutboxEvent, source: str) -> dict[str, str]:
    """The attributes of an event that its columns give, but for ``datacontenttype``."""
    attributes = {"specversion": "1.0", "id": str(event.event_id), "source": source, "type": event.announced_type}
    if (time := _time(event.created_at)) is not None:
        attributes["time"] = time
    if event.partition_key is not None and _VALUE.fullmatch(event.partition_key):
        attributes["subject"] = event.partition_key
    return attributes


def _time(seconds: float) -> str | None:
    """A timestamp to the microsecond; None for a time that RFC 3339 cannot write, infinity among them."""
    try:
        return time_text(datetime.fromtimestamp(seconds, UTC), "microseconds")
    except (OverflowError, ValueError, OSError):
        return None


def _sorted_headers(text: str, binding: Binding) -> tuple[dict[str, str], list[Header], str | None]:
    """The application's headers as extension attributes and as headers, and the media type that one of them names."""
    extensions: dict[str, str] = {}
    others: list[Header] = []
    media_type: str | None = None
    if text == "{}":
        return extensions, others, media_type
    reserved = (binding.prefix.lower(), *binding.also_read)
    for name, value in wire_headers(text):
        lower = name.lower()
        if lower == CONTENT_TYPE and media_type is None and _MEDIA_TYPE.fullmatch(stripped := value.strip(" ")):
            media_type = stripped
        elif name not in _SET_BY_THE_RELAY and _NAME.fullmatch(name) and _VALUE.fullmatch(value):
            extensions[name] = value
            if name in _BOTH:
                others.append((name, value))
        elif lower == CONTENT_TYPE or lower.startswith(reserved):
            others.append((USER_PREFIX + name, value))
        else:
            others.append((name, value))
    return extensions, others, media_type


def _apparent_type(payload: bytes) -> str:
    """JSON for what begins and ends as a JSON object or array does, without a look at what is between."""
    ends = payload[:_SPACE].lstrip()[:1] + payload[-_SPACE:].rstrip()[-1:]
    return JSON_TYPE if ends in {b"{}", b"[]"} else BYTES_TYPE


def _is_json(payload: bytes) -> bool:
    """Whether the payload may stand in a JSON object as it is."""
    try:
        json.loads(payload.decode(), parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True
