"""Logs, Prometheus metrics and OpenTelemetry export."""
