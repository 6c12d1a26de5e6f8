"""Whether metrics and traces are exported over OTLP, by the OpenTelemetry standard's variables.

Nothing of OpenTelemetry is imported unless an exporter is configured. A missing library is a warning and never a
failed start: a relay that delivers unobserved is better than one that does not deliver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

from relay.core.extras import install_advice
from relay.telemetry.measurements import Measurements
from relay.telemetry.otlp import Signal
from relay.telemetry.providers import Providers
from relay.telemetry.tracer import SpanTracer, TracedSystems

logger = logging.getLogger(__name__)

T = TypeVar("T")

_EXPORTERS: Final = {"METRICS": {"otlp", "prometheus", "none"}, "TRACES": {"otlp", "none"}}


class Exporter(Protocol):
    """A running export."""

    def stop(self) -> None:
        """Export a last time and end, within two seconds; never raises. Blocks."""


class Tracing(NamedTuple):
    """Traces that are on: what the engine calls, and what is stopped at the end."""

    tracer: SpanTracer
    exporter: Exporter

    def stop(self) -> None:
        """See ``Exporter``."""
        self.exporter.stop()


def export_requested(signal: Signal, variables: Mapping[str, str]) -> bool:
    """Whether these ``OTEL_*`` variables ask for a signal over OTLP; without any of them it is off."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    chosen = _words(variables, f"OTEL_{signal}_EXPORTER")
    if not chosen:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        return any(variables.get(name) for name in endpoints)
    if strange := chosen - _EXPORTERS[signal]:
        _warn(f"OTEL_{signal}_EXPORTER={','.join(sorted(strange))} is not known here; write otlp or none")
    return "otlp" in chosen


def start_export(providers: Providers, variables: Mapping[str, str]) -> Exporter | None:
    """Begin to export metrics in a thread of its own, where ``variables`` ask for it."""
    if not export_requested("METRICS", variables):
        return None

    def start() -> Exporter:
        from relay.telemetry.otel import OtlpExport  # noqa: PLC0415 - an extra, and 15 MB of memory

        return OtlpExport(providers, variables)

    return _started("metrics", start)


def start_traces(
    measurements: Measurements, variables: Mapping[str, str], relay_id: str, systems: TracedSystems
) -> Tracing | None:
    """Begin to export spans in a thread of its own, where ``variables`` ask for it.

    ``measurements`` gets the latencies of sampled events as exemplars.
    """
    if not export_requested("TRACES", variables) or not _propagates(variables):
        return None
    sampler = variables.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if sampler and not sampler.startswith("parentbased_"):
        _warn(f"OTEL_TRACES_SAMPLER={sampler} is ignored: the traceparent of each event decides whether it is sampled")

    def start() -> Tracing:
        from relay.telemetry.otel_traces import OtlpSpans  # noqa: PLC0415 - an extra, and 15 MB of memory

        spans = OtlpSpans(variables, relay_id)
        return Tracing(SpanTracer(systems, spans.add, measurements.exemplify), spans)

    return _started("traces", start)


def _propagates(variables: Mapping[str, str]) -> bool:
    """Whether ``traceparent`` is among the propagators, as it is by default."""
    propagators = _words(variables, "OTEL_PROPAGATORS")
    if not propagators or "tracecontext" in propagators:
        return True
    _warn(
        f"traces are off: OTEL_PROPAGATORS={','.join(sorted(propagators))} leaves out tracecontext, the only one here"
    )
    return False


def _started(signal: str, start: Callable[[], T]) -> T | None:
    """What ``start`` returns; None with a warning for a missing library or an unusable variable."""
    try:
        return start()
    except ImportError as error:
        grpc = "grpc" in str(error)  # the exporter of the protocol is imported by its name
        missing = f"{error.name} is not installed" if error.name else str(error)
        _warn(f"{signal} are not exported over OTLP: {missing}. {install_advice('otel-grpc' if grpc else 'otel')}")
    except (ValueError, TypeError) as error:
        _warn(f"{signal} are not exported over OTLP: {error}")
    return None


def _words(variables: Mapping[str, str], name: str) -> set[str]:
    return {word.strip().lower() for word in variables.get(name, "").split(",")} - {""}


def _warn(text: str) -> None:
    logger.warning("%s", text, extra={"action": "otel_unavailable"})
