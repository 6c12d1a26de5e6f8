"""Dangerous one-line changes of the relay, each of which a test of ``make test`` must notice. Run on demand."""
