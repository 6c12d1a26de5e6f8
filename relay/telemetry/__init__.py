"""Logs, Prometheus metrics and OpenTelemetry export.

``catalogue`` has a row for each metric. The engine writes into ``measurements``; ``prometheus`` and ``otel`` show these
and what other ``providers`` have. ``tracer`` makes spans, ``logs`` all output of the process.
"""
