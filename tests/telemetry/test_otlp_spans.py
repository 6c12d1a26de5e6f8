"""Spans written field by field are what OpenTelemetry's own encoder makes of them."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as api
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace.status import Status, StatusCode

from relay.core.tracecontext import TraceContext
from relay.telemetry.otlp_spans import SpanEncoder, encode_span
from relay.telemetry.tracer import Span, SpanKind
from relay.version import __version__

RESOURCE = {"service.name": "openoutbox-relay", "service.instance.id": "r1"}

contexts = st.builds(
    TraceContext,
    st.integers(1, 2**128 - 1).map("{:032x}".format),
    st.integers(1, 2**64 - 1).map("{:016x}".format),
    st.sampled_from([1, 3]),
    st.sampled_from(["", "a=b", "a=b,vendor=1"]),
)
times = st.integers(0, 2**63)
spans = st.builds(
    Span,
    st.text(),
    st.sampled_from(SpanKind),
    contexts,
    st.none() | contexts,
    st.lists(contexts, max_size=3),
    times,
    times,
    st.dictionaries(st.text(), st.text() | st.integers(0, 2**63 - 1), max_size=9),
    st.text(),
)


def converted(span: Span) -> ReadableSpan:
    """The span as OpenTelemetry's SDK has it."""
    return ReadableSpan(
        span.name,
        context=in_sdk(span.context, remote=False),
        parent=span.parent and in_sdk(span.parent, remote=True),
        resource=Resource(RESOURCE),
        attributes=span.attributes,
        links=[api.Link(in_sdk(link, remote=True)) for link in span.links],
        kind=api.SpanKind[span.kind.value],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=span.started_at,
        end_time=max(span.started_at, span.ended_at),
        instrumentation_scope=InstrumentationScope("relay", __version__),
    )


def in_sdk(context: TraceContext, *, remote: bool) -> api.SpanContext:
    return api.SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        remote,
        api.TraceFlags(context.flags),
        api.TraceState.from_header([context.state]) if context.state else None,
    )


@given(st.lists(spans, min_size=1, max_size=4))
def test_a_request_is_that_of_the_library(several: list[Span]) -> None:
    ours, theirs = (
        SpanEncoder(RESOURCE).request(map(encode_span, several)),
        encode_spans([converted(span) for span in several]),
    )
    # The library sets a status, empty, on spans without an error too.
    for resource in theirs.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                if not span.status.ByteSize():
                    span.ClearField("status")
    assert ours == theirs


def test_what_is_not_valid_unicode_loses_that_and_not_the_request() -> None:
    context = TraceContext("a" * 32, "b" * 16)
    span = Span("publish \ud800", SpanKind.PRODUCER, context, None, (), 1, 2, {"k": "\ud800"}, "\ud800")
    [resource] = SpanEncoder(RESOURCE).request([encode_span(span)]).resource_spans
    [encoded] = resource.scope_spans[0].spans
    assert (encoded.name, encoded.attributes[0].value.string_value, encoded.status.message) == ("publish ?", "?", "?")
