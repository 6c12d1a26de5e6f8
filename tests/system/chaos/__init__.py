"""Faults on purpose, under load, on real servers; docs/design/guarantees.md says what each shows."""
