"""Whether measurements are exported over OTLP, by the OpenTelemetry standard's variables.

Nothing of OpenTelemetry is imported unless an exporter is configured. A missing library is a warning and never a
failed start: a relay that delivers unobserved is better than one that does not deliver.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from relay.core.extras import install_advice
from relay.telemetry.measurements import Measurements

logger = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")


class Exporter(Protocol):
    """A running export."""

    def stop(self) -> None:
        """Export a last time and end, within two seconds; never raises. Blocks."""


def export_requested(variables: Mapping[str, str]) -> bool:
    """Whether these ``OTEL_*`` variables ask for OTLP; the default is none, as the contract has it."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    chosen = {word.strip().lower() for word in variables.get("OTEL_METRICS_EXPORTER", "").split(",")} - {""}
    if not chosen:
        return any(variables.get(name) for name in _ENDPOINTS)
    if strange := chosen - {"otlp", "prometheus", "none"}:
        _warn(f"OTEL_METRICS_EXPORTER={','.join(sorted(strange))} is not known here; write otlp or none")
    return "otlp" in chosen


def start_export(measurements: Measurements, variables: Mapping[str, str], relay_id: str) -> Exporter | None:
    """Begin to export in a thread of its own, where ``variables`` ask for it."""
    if not export_requested(variables):
        return None
    try:
        from relay.telemetry.otel import OtlpExport  # noqa: PLC0415 - an extra, and 15 MB of memory
    except ImportError as error:
        _warn(f"metrics are not exported over OTLP, {error.name} is not installed. {install_advice('otel')}")
        return None
    try:
        return OtlpExport(measurements, variables, relay_id)
    except ImportError as error:  # the exporter of the protocol is imported only now
        extra = "otel-grpc" if "grpc" in str(error) else "otel"
        _warn(f"metrics are not exported over OTLP: {error}. {install_advice(extra)}")
        return None
    except (ValueError, TypeError) as error:
        _warn(f"metrics are not exported over OTLP: {error}")
        return None


def _warn(text: str) -> None:
    logger.warning("%s", text, extra={"action": "otel_unavailable"})
