"""Tests of relay.engine.destination."""
