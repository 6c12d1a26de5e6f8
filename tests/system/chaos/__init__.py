"""Faults on purpose, under load, on real servers; docs/guarantees.md says what each shows."""
