"""Spans as OTLP's protobuf messages, written field by field.

OpenTelemetry's encoder takes 100 us for a span, which is most of what traces cost; this takes 10 us
(docs/performance.md#traces). Numbers of fields: opentelemetry/proto/trace/v1/trace.proto. Imported only by
``relay.telemetry.otel_traces``; needs the extra ``otel``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, SpanFlags, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from relay.core.tracecontext import TraceContext
from relay.telemetry.tracer import Span
from relay.version import __version__

# A field's tag: its number and, in the last three bits, how its value is written (1: 8 bytes, 2: a length before it).
_SPANS_OF_SCOPE: Final = b"\x12"
_TRACE_ID, _SPAN_ID, _STATE, _PARENT_ID, _NAME, _KIND = b"\x0a\x10", b"\x12\x08", b"\x1a", b"\x22\x08", b"\x2a", b"\x30"
_ATTRIBUTE, _LINK, _STATUS = b"\x4a", b"\x6a", b"\x7a"
_TIMES: Final = struct.Struct("<BQBQ").pack
_START, _END = 0x39, 0x41

_LOCAL: Final = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE: Final = _LOCAL | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_NO_PARENT: Final = SpanMessage(flags=_LOCAL).SerializeToString()
_REMOTE_PARENT: Final = SpanMessage(flags=_REMOTE).SerializeToString()


class SpanEncoder:
    """Encodes the spans of one relay."""

    def __init__(self, resource: Mapping[str, str]) -> None:
        """``resource`` holds the attributes that say who speaks."""
        attributes = [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in resource.items()]
        self._resource = Resource(attributes=attributes)
        self._scope = InstrumentationScope(name="relay", version=__version__)

    def encode(self, spans: Sequence[Span]) -> ExportTraceServiceRequest:
        """The request that exports these spans."""
        scope_spans = ScopeSpans.FromString(b"".join(map(_span, spans)))
        scope_spans.scope.CopyFrom(self._scope)
        return ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=self._resource, scope_spans=[scope_spans])]
        )


def _span(span: Span) -> bytes:
    context, parent = span.context, span.parent
    fields = [
        _TRACE_ID + bytes.fromhex(context.trace_id),
        _SPAN_ID + bytes.fromhex(context.span_id),
        _NAME + _sized(_utf8(span.name)),
        _KIND + _varint(SpanMessage.SpanKind.Value(f"SPAN_KIND_{span.kind.value}")),
        # The host's clock may have been set back meanwhile.
        _TIMES(_START, span.started_at, _END, max(span.ended_at, span.started_at)),
        *[_attribute(key, value) for key, value in span.attributes.items()],
        *map(_link, span.links),
        _NO_PARENT if parent is None else _PARENT_ID + bytes.fromhex(parent.span_id) + _REMOTE_PARENT,
    ]
    if context.state:
        fields.append(_STATE + _sized(_utf8(context.state)))
    if span.error:
        status = Status(code=Status.STATUS_CODE_ERROR, message=_utf8(span.error).decode())
        fields.append(_STATUS + _sized(status.SerializeToString()))
    return _SPANS_OF_SCOPE + _sized(b"".join(fields))


@lru_cache(maxsize=1024)
def _attribute(key: str, value: str | int) -> bytes:
    """Cached: most attributes of the spans of a batch are equal."""
    any_value = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=_utf8(value).decode())
    return _ATTRIBUTE + _sized(KeyValue(key=key, value=any_value).SerializeToString())


@lru_cache(maxsize=1024)
def _link(context: TraceContext) -> bytes:
    """Cached: each span of a batch links its claim."""
    link = SpanMessage.Link(
        trace_id=bytes.fromhex(context.trace_id), span_id=bytes.fromhex(context.span_id), flags=_REMOTE
    )
    return _LINK + _sized(link.SerializeToString())


def _utf8(text: str) -> bytes:
    """What is not valid Unicode becomes ``?``: a request with it would be refused whole."""
    return text.encode(errors="replace")


def _sized(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _varint(number: int) -> bytes:
    """A number from 0 on, seven bits a byte, the lowest first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
