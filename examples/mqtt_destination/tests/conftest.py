"""The fixtures of the suite."""

pytest_plugins = ["relay.conformance.plugin"]
