"""Spans as OTLP's protobuf messages, written field by field.

OpenTelemetry's encoder takes 100 us for a span, which was most of what traces cost; this takes 5 to 10 us
(docs/design/performance.md#traces). Numbers of fields: opentelemetry/proto/trace/v1/trace.proto. Imported only by
``relay.telemetry.otel_traces``; needs the extra ``otel``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, SpanFlags, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from relay.core.tracecontext import TraceContext
from relay.telemetry.tracer import Span, SpanKind
from relay.version import __version__

# A field's tag: its number and, in the last three bits, how its value is written (0: as a varint, 1: in 8 bytes,
# 2: with its length in front). That of an id comes with the length.
_RESOURCE_SPANS, _SCOPE_SPANS, _SPAN = b"\x0a", b"\x12", b"\x12"
_TRACE_ID, _SPAN_ID, _STATE, _PARENT_ID, _NAME = b"\x0a\x10", b"\x12\x08", b"\x1a", b"\x22\x08", b"\x2a"
_START, _END, _ATTRIBUTE, _LINK, _STATUS = 0x39, 0x41, b"\x4a", b"\x6a", b"\x7a"
_KEY, _VALUE, _STRING_VALUE, _INT_VALUE = b"\x0a", b"\x12", b"\x0a", b"\x18"
_MESSAGE, _ERROR = b"\x12", Status(code=Status.STATUS_CODE_ERROR).SerializeToString()

_TIMES: Final = struct.Struct("<BQBQ").pack
_BYTES: Final = [bytes((number,)) for number in range(0x80)]
_KINDS: Final = {
    kind: SpanMessage(kind=SpanMessage.SpanKind.Value(f"SPAN_KIND_{kind.value}")).SerializeToString()
    for kind in SpanKind
}
_LOCAL: Final = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE: Final = _LOCAL | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_NO_PARENT: Final = SpanMessage(flags=_LOCAL).SerializeToString()
_REMOTE_PARENT: Final = SpanMessage(flags=_REMOTE).SerializeToString()
_REMOTE_LINK: Final = SpanMessage.Link(flags=_REMOTE).SerializeToString()


class SpanEncoder:
    """Encodes the spans of one relay."""

    def __init__(self, resource: Mapping[str, str]) -> None:
        """``resource`` holds the attributes that say who speaks."""
        attributes = [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in resource.items()]
        self._resource = ResourceSpans(resource=Resource(attributes=attributes)).SerializeToString()
        scope = InstrumentationScope(name="relay", version=__version__)
        self._scope = ScopeSpans(scope=scope).SerializeToString()

    def request(self, spans: Iterable[bytes]) -> ExportTraceServiceRequest:
        """The request that exports encoded spans. It is parsed once, since putting messages into others copies them."""
        scope_spans = self._scope + b"".join(spans)
        resource_spans = self._resource + _sized(_SCOPE_SPANS, scope_spans)
        request: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(
            _sized(_RESOURCE_SPANS, resource_spans)
        )
        return request


def encode_span(span: Span) -> bytes:
    """One span of a request."""
    context, parent = span.context, span.parent
    fields = [
        _TRACE_ID + bytes.fromhex(context.trace_id),
        _SPAN_ID + bytes.fromhex(context.span_id),
        _text(_NAME, span.name),
        _KINDS[span.kind],
        # The host's clock may have been set back meanwhile.
        _TIMES(_START, span.started_at, _END, max(span.ended_at, span.started_at)),
        *[_attribute(key, value) for key, value in span.attributes.items()],
        *map(_link, span.links),
        _NO_PARENT if parent is None else _PARENT_ID + bytes.fromhex(parent.span_id) + _REMOTE_PARENT,
    ]
    if context.state:
        fields.append(_text(_STATE, context.state))
    if span.error:
        fields.append(_sized(_STATUS, _text(_MESSAGE, span.error) + _ERROR))
    return _sized(_SPAN, b"".join(fields))


@lru_cache(maxsize=1024)
def _attribute(key: str, value: str | int) -> bytes:
    """Cached: most attributes of the spans of a batch are equal."""
    any_value = _text(_STRING_VALUE, value) if isinstance(value, str) else _INT_VALUE + _varint(value)
    return _sized(_ATTRIBUTE, _text(_KEY, key) + _sized(_VALUE, any_value))


@lru_cache(maxsize=1024)
def _link(context: TraceContext) -> bytes:
    """Cached: each span of a batch links its claim."""
    ids = _TRACE_ID + bytes.fromhex(context.trace_id) + _SPAN_ID + bytes.fromhex(context.span_id)
    return _sized(_LINK, ids + _REMOTE_LINK)


def _text(tag: bytes, text: str) -> bytes:
    """What is not valid Unicode becomes ``?``: a request with it would be refused whole."""
    return _sized(tag, text.encode(errors="replace"))


def _sized(tag: bytes, value: bytes) -> bytes:
    return tag + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    """A number from 0 on, seven bits a byte, the lowest first."""
    if number < 0x80:
        return _BYTES[number]
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
