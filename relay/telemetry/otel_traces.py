"""Spans over OTLP: queued by the engine, encoded and sent by a thread of its own.

The engine pays for a place in a queue. A collector that is slow, absent or refuses costs that thread its time and the
log a line; a full queue drops spans and says how many, and no event waits for it. Imported only by
``relay.telemetry.export``; needs the extra ``otel``.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from opentelemetry.sdk.trace.export import SpanExportResult

from relay.telemetry.otlp import make_exporter, number, resource_attributes
from relay.telemetry.otlp_spans import SpanEncoder, encode_span
from relay.telemetry.tracer import Span

logger = logging.getLogger(__name__)

_DELAY_MS, _MOST_QUEUED, _MOST_EXPORTED = 5_000.0, 2048.0, 512.0  # the standard's defaults of OTEL_BSP_*
_AT_ONCE: Final = 32  # spans that are encoded without a rest
_REST: Final = 0.0005  # seconds
_STOP_SECONDS: Final = 1.0
"""Less than the relay waits for it with the default SHUTDOWN_TIMEOUT, so that what is dropped is still said."""


class OtlpSpans:
    """Exports from its construction on. Raises ValueError or ImportError for variables with unusable values."""

    def __init__(self, variables: Mapping[str, str], relay_id: str) -> None:
        encoder = SpanEncoder(resource_attributes(variables, relay_id))
        self._exporter = make_exporter("TRACES", variables, encoder.request)
        self._delay = number(variables.get("OTEL_BSP_SCHEDULE_DELAY", ""), _DELAY_MS) / 1000
        self._most_queued = number(variables.get("OTEL_BSP_MAX_QUEUE_SIZE", ""), _MOST_QUEUED)
        self._most_exported = math.ceil(number(variables.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", ""), _MOST_EXPORTED))
        self._queue: deque[Span] = deque()
        self._dropped = self._said = 0
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
        """Export what is queued and end, within two seconds; what is not exported by then is dropped."""
        self._ending = True
        self._due.set()
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            # Ends its retries, apart: some releases of the library wait for the request that hangs.
            threading.Thread(target=self._exporter.shutdown, name="relay-otel-shutdown", daemon=True).start()
            self._dropped += len(self._queue)
            self._say_dropped()
        else:
            self._exporter.shutdown()

    def _run(self) -> None:
        while not self._ending:
            full = self._due.wait(self._delay)
            # Cleared before the queue is looked at: a span that is queued meanwhile is exported or sets it again.
            self._due.clear()
            # A request costs as much as 100 spans: what makes no full one waits for more, or for its time.
            fewest = self._most_exported if full else 1
            while len(self._queue) >= fewest or (self._queue and self._ending):
                self._export([self._queue.popleft() for _ in range(min(len(self._queue), self._most_exported))])
                self._say_dropped()

    def _say_dropped(self) -> None:
        dropped = self._dropped - self._said
        if dropped:
            self._said += dropped
            logger.warning(
                "the collector is too slow: %d spans are dropped",
                dropped,
                extra={"action": "spans_dropped", "spans": dropped},
            )

    def _encoded(self, spans: list[Span]) -> list[bytes]:
        """The spans of a request. It takes milliseconds, and the event loop waits for the interpreter's lock meanwhile.

        So it rests now and then, unless there is more to do.
        """
        parts: list[bytes] = []
        for first in range(0, len(spans), _AT_ONCE):
            if first and not self._ending and len(self._queue) < self._most_exported:
                time.sleep(_REST)
            parts += map(encode_span, spans[first : first + _AT_ONCE])
        return parts

    def _export(self, spans: list[Span]) -> None:
        try:
            result = self._exporter.export(self._encoded(spans))
        except Exception:  # whatever a collector or the library does, the relay goes on
            logger.exception("the spans could not be exported", extra={"action": "otel_export_failed"})
            return
        if result is not SpanExportResult.SUCCESS:
            logger.warning("the collector did not take the spans", extra={"action": "otel_export_failed"})
