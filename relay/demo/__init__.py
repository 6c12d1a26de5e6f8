"""The demonstration: ``python -m relay.demo`` shows the relay at work on a machine that has nothing but Python.

It stands beside the composition root and may use anything. Its embedded PostgreSQL also serves the project's tests
and benchmarks.
"""
