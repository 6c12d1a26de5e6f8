"""Spans over OTLP: queued by the engine, converted and sent by a thread of its own.

The engine pays for a place in a queue. A collector that is slow, absent or refuses costs that thread its time and the
log a line; a full queue drops spans and says how many, and no event waits for it. Imported only by
``relay.telemetry.export``; needs the extra ``otel``.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from opentelemetry import trace as api
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace.status import Status, StatusCode

from relay.core.tracecontext import TraceContext
from relay.telemetry.otlp import make_exporter, number, resource_attributes
from relay.telemetry.tracer import Span
from relay.version import __version__

logger = logging.getLogger(__name__)

_SCOPE: Final = InstrumentationScope("relay", __version__)
_DELAY_MS, _MOST_QUEUED, _MOST_EXPORTED = 5_000.0, 2048.0, 512.0  # the standard's defaults of OTEL_BSP_*
_STOP_SECONDS: Final = 1.5


class OtlpSpans:
    """Exports from its construction on. Raises ValueError or ImportError for variables with unusable values."""

    def __init__(self, variables: Mapping[str, str], relay_id: str) -> None:
        self._resource = Resource(resource_attributes(variables, relay_id))
        self._exporter: SpanExporter = make_exporter("TRACES", variables)
        self._delay = number(variables.get("OTEL_BSP_SCHEDULE_DELAY", ""), _DELAY_MS) / 1000
        self._most_queued = number(variables.get("OTEL_BSP_MAX_QUEUE_SIZE", ""), _MOST_QUEUED)
        self._most_exported = number(variables.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", ""), _MOST_EXPORTED)
        self._queue: deque[Span] = deque()
        self._dropped = 0
        self._due = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="relay-otel-traces", daemon=True)
        self._thread.start()

    def add(self, span: Span) -> None:
        """Queue a span that has ended, or drop it when the queue is full. Called by the event loop's thread alone."""
        queued = len(self._queue)
        if queued >= self._most_queued:
            self._dropped += 1
            return
        self._queue.append(span)
        if queued + 1 >= self._most_exported and not self._due.is_set():
            self._due.set()

    def stop(self) -> None:
        """Export what is queued and end, within two seconds."""
        self._ending = True
        self._due.set()
        self._thread.join(_STOP_SECONDS)
        self._exporter.shutdown()

    def _run(self) -> None:
        said = 0
        while not self._ending:
            self._due.wait(self._delay)
            # Cleared before the queue is looked at: a span that is queued meanwhile is exported or sets it again.
            self._due.clear()
            while self._queue:
                self._export([self._queue.popleft() for _ in range(min(len(self._queue), round(self._most_exported)))])
            if (dropped := self._dropped) > said:
                logger.warning(
                    "the queue of spans was full: %d are dropped",
                    dropped - said,
                    extra={"action": "spans_dropped", "spans": dropped - said},
                )
                said = dropped

    def _export(self, spans: list[Span]) -> None:
        try:
            result = self._exporter.export([self._readable(span) for span in spans])
        except Exception:  # whatever a collector or the library does, the relay goes on
            logger.exception("the spans could not be exported", extra={"action": "otel_export_failed"})
            return
        if result is not SpanExportResult.SUCCESS:
            logger.warning("the collector did not take the spans", extra={"action": "otel_export_failed"})

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span.context, remote=False),
            parent=None if span.parent is None else _context(span.parent, remote=True),
            resource=self._resource,
            attributes=span.attributes,
            links=[api.Link(_context(link, remote=True)) for link in span.links],
            kind=api.SpanKind[span.kind.value],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=span.started_at,
            end_time=max(span.ended_at, span.started_at),  # the host's clock may have been set back
            instrumentation_scope=_SCOPE,
        )


@lru_cache(maxsize=1024)
def _context(context: TraceContext, *, remote: bool) -> api.SpanContext:
    """OpenTelemetry's form of a context. Cached: the claim's is linked by each span of its batch."""
    return api.SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=remote,
        trace_flags=api.TraceFlags(context.flags),
        trace_state=api.TraceState.from_header([context.state]) if context.state else None,
    )
