"""Real servers on loopback, for the demonstration, the tests and the benchmarks."""
