"""The context of the span that is active in the application, as headers of an event."""

from __future__ import annotations

import json
from collections.abc import Mapping

from openoutbox.errors import ConfigError


def trace_headers() -> dict[str, str]:
    """Return the ``traceparent`` of the active span, and its ``tracestate`` if it has one; empty without a span.

    Imports OpenTelemetry's API, which an application with traces has. Raises ConfigError without it.
    """
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "trace: the Python library opentelemetry-api is not installed. Install it, or leave out trace=True"
        ) from None
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def traced_headers(headers_json: str, context: Mapping[str, str]) -> str:
    """Return the JSON text of an event's headers with ``context`` added; unchanged when it holds a ``traceparent``."""
    if not context or ("traceparent" in headers_json and "traceparent" in json.loads(headers_json)):
        return headers_json
    added = json.dumps(context, separators=(",", ":"))
    return added if headers_json == "{}" else f"{headers_json[:-1]},{added[1:]}"
