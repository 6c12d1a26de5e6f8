"""The HTTP side: health, readiness, stats and metrics."""
