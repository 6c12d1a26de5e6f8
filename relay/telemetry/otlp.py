"""The standard's ``OTEL_*`` variables of an exporter over OTLP: protocol, address, headers, numbers, resource.

A signal (``METRICS``, ``TRACES``) has variables of its own, which win over the general ones. What is not read here
(certificates, compression) the exporters read from the environment.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import unquote

from relay.version import __version__

logger = logging.getLogger(__name__)

Signal = Literal["METRICS", "TRACES"]

TIMEOUT_MS: Final = 10_000.0
_EXPORTERS: Final = {
    "METRICS": ("metric_exporter", "OTLPMetricExporter"),
    "TRACES": ("trace_exporter", "OTLPSpanExporter"),
}


def make_exporter(signal: Signal, variables: Mapping[str, str]) -> Any:  # noqa: ANN401  # a class of either protocol
    """The exporter of the chosen protocol. Raises ValueError for another one, ImportError without its library."""
    protocol = setting(signal, variables, "PROTOCOL") or "http/protobuf"
    if protocol not in ("http/protobuf", "grpc"):
        raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not supported; write http/protobuf or grpc")
    grpc = protocol == "grpc"
    module, name = _EXPORTERS[signal]
    path = f"opentelemetry.exporter.otlp.proto.{'grpc' if grpc else 'http'}.{module}"
    library = importlib.import_module(path)
    headers = dict(pairs(setting(signal, variables, "HEADERS")))
    return getattr(library, name)(
        endpoint=_endpoint(signal, variables, grpc=grpc),
        headers=headers or None,
        timeout=number(setting(signal, variables, "TIMEOUT"), TIMEOUT_MS) / 1000,
    )


def _endpoint(signal: Signal, variables: Mapping[str, str], *, grpc: bool) -> str | None:
    """The URL; a general one is completed by the signal's path, a signal's own is taken as it stands."""
    if own := variables.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"):
        return own
    general = variables.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return general if grpc or not general else f"{general.rstrip('/')}/v1/{signal.lower()}"


def resource_attributes(variables: Mapping[str, str], relay_id: str) -> dict[str, str]:
    """Who speaks: ours, overridden by OTEL_RESOURCE_ATTRIBUTES, and that by OTEL_SERVICE_NAME."""
    ours = {"service.name": "openoutbox-relay", "service.version": __version__, "service.instance.id": relay_id}
    attributes = dict(pairs(variables.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    named = variables.get("OTEL_SERVICE_NAME")
    return {**ours, **attributes, **({"service.name": named} if named else {})}


def setting(signal: Signal, variables: Mapping[str, str], name: str) -> str:
    """The signal's own variable, or the general one; empty when neither is set."""
    general = variables.get(f"OTEL_EXPORTER_OTLP_{name}", "")
    return (variables.get(f"OTEL_EXPORTER_OTLP_{signal}_{name}") or general).strip()


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """The names and values of ``a=1,b=2``, percent-decoded."""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals and name.strip():
            yield name.strip(), unquote(value.strip())


def number(text: str, otherwise: float) -> float:
    """A number above 0; the standard asks that anything else be warned about and ignored."""
    if not text:
        return otherwise
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        logger.warning("%r is not a number above 0 and is ignored", text, extra={"action": "otel_unavailable"})
        return otherwise
    return value
