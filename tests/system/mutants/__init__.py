"""Dangerous one-line changes of the relay, each of which some test must notice. Run on demand."""
