"""A span that is active in the test, as any instrumentation of an application makes one active."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN: Final = "00f067aa0ba902b7"
TRACEPARENT: Final = f"00-{TRACE}-{SPAN}-01"


@contextmanager
def active_span(state: str = "a=b") -> Iterator[None]:
    """A sampled span with that ``tracestate``. Needs the extra otel."""
    from opentelemetry import trace as api  # noqa: PLC0415 - optional

    context = api.SpanContext(
        int(TRACE, 16), int(SPAN, 16), False, api.TraceFlags(1), api.TraceState.from_header([state] if state else [])
    )
    with api.use_span(api.NonRecordingSpan(context)):
        yield
