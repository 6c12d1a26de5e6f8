"""Stand-ins that keep a port's promises, for tests that need to steer it. Held to them by the conformance suites."""
