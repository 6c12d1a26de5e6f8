"""Logs, Prometheus metrics and OpenTelemetry export.

``catalogue`` has a row for each metric, ``histogram`` the buckets. The engine writes into ``measurements``;
``prometheus`` and ``otel`` show these and what other ``providers`` have, which bound the number of series. ``tracer``
makes spans, ``otel_traces`` exports them; ``export`` says whether anything is exported, ``otlp`` where. ``logs`` is all
output of the process, without secrets, ``throttle`` its limit on repetitions.
"""
