"""Spans over OTLP, by the OpenTelemetry SDK's processor and exporters.

The engine pays for the SDK's span and a place in the processor's queue. The processor's thread encodes and sends. A
collector that is slow, absent or refuses costs that thread its time and the log a line; a full queue drops spans and
says how many, and no event waits for it. Imported only by ``relay.telemetry.export``; needs the extra ``otel``.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from opentelemetry import trace as api
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace.status import Status, StatusCode

from relay.core.outside import cut
from relay.core.tracecontext import TraceContext
from relay.telemetry.otlp import make_exporter, number, resource_attributes
from relay.telemetry.tracer import Span
from relay.version import __version__

logger = logging.getLogger(__name__)

_DELAY_MS, _MOST_QUEUED, _MOST_EXPORTED = 5_000.0, 2048.0, 512.0  # the standard's defaults of OTEL_BSP_*
_STOP_SECONDS: Final = 1.0
"""Less than the relay waits for it with the default SHUTDOWN_TIMEOUT, so that what is dropped is still said."""
_SCOPE: Final = InstrumentationScope("relay", __version__)
_UNSET: Final = Status()


class OtlpSpans:
    """Exports from its construction on. Raises ValueError or ImportError for variables with unusable values."""

    def __init__(self, variables: Mapping[str, str], relay_id: str) -> None:
        self._resource = Resource(resource_attributes(variables, relay_id))
        self._most_queued = math.ceil(number(variables.get("OTEL_BSP_MAX_QUEUE_SIZE", ""), _MOST_QUEUED))
        most_exported = math.ceil(number(variables.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", ""), _MOST_EXPORTED))
        self._exporter = _CountingExporter(make_exporter("TRACES", variables))
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=self._most_queued,
            schedule_delay_millis=number(variables.get("OTEL_BSP_SCHEDULE_DELAY", ""), _DELAY_MS),
            max_export_batch_size=min(most_exported, self._most_queued),  # the processor refuses more
        )
        self._queued = 0

    def add(self, span: Span) -> None:
        """Queue a span that has ended, or drop it when the queue is full. Called by the event loop's thread alone.

        The processor would drop the oldest one, count none, and call its logger for each.
        """
        if self._queued - self._exporter.taken >= self._most_queued:
            self._exporter.dropped += 1
            return
        self._queued += 1
        self._processor.on_end(_in_sdk(span, self._resource))

    def stop(self) -> None:
        """Export what is queued and end, within two seconds; what is not exported by then is dropped."""
        ending = threading.Thread(target=self._processor.shutdown, name="relay-otel-traces", daemon=True)
        ending.start()
        ending.join(_STOP_SECONDS)
        if ending.is_alive():
            # Ends its retries, apart: some releases of the library wait for the request that hangs.
            threading.Thread(target=self._exporter.shutdown, name="relay-otel-shutdown", daemon=True).start()
            self._exporter.dropped += self._queued - self._exporter.taken
        self._exporter.log_dropped()


class _CountingExporter(SpanExporter):
    """The exporter of the chosen protocol, which knows what was taken from the queue; its calls never raise."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.taken = 0
        """Spans that have left the queue; written by the processor's thread alone."""
        self.dropped = 0
        """Spans that found no place; written by the event loop's thread alone."""
        self._logged = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See ``SpanExporter``."""
        self.taken += len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        except Exception:  # whatever a collector or the library does, the relay goes on
            logger.exception("%d spans could not be exported", len(spans), extra={"action": "otel_export_failed"})
        else:
            if result is not SpanExportResult.SUCCESS:
                logger.warning(
                    "the collector did not take %d spans", len(spans), extra={"action": "otel_export_failed"}
                )
        self.log_dropped()
        return result

    def log_dropped(self) -> None:
        """Say how many were dropped since the last time."""
        dropped = self.dropped - self._logged
        if dropped:
            self._logged += dropped
            logger.warning(
                "the collector is too slow: %d spans are dropped",
                dropped,
                extra={"action": "spans_dropped", "spans": dropped},
            )

    def shutdown(self) -> None:
        """See ``SpanExporter``."""
        self._exporter.shutdown()


def _in_sdk(span: Span, resource: Resource) -> ReadableSpan:
    return ReadableSpan(
        _valid(span.name),
        context=_context(span.context, remote=False),
        parent=None if span.parent is None else _context(span.parent, remote=True),
        resource=resource,
        attributes={key: _valid(value) if isinstance(value, str) else value for key, value in span.attributes.items()},
        links=[_link(link) for link in span.links],
        kind=api.SpanKind[span.kind.value],
        status=Status(StatusCode.ERROR, _valid(span.error)) if span.error else _UNSET,
        start_time=span.started_at,
        end_time=max(span.ended_at, span.started_at),  # the host's clock may have been set back meanwhile
        instrumentation_scope=_SCOPE,
    )


def _context(context: TraceContext, *, remote: bool) -> api.SpanContext:
    return api.SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        remote,
        api.TraceFlags(context.flags),
        api.TraceState.from_header([context.state]) if context.state else None,
    )


@lru_cache(maxsize=1024)
def _link(context: TraceContext) -> api.Link:
    """Cached: each span of a batch links its claim."""
    return api.Link(_context(context, remote=True))


def _valid(text: str) -> str:
    """Cut, and what is not valid Unicode becomes ``?``: the exporter would lose the whole request."""
    text = cut(text)
    return text if text.isascii() else text.encode(errors="replace").decode()
