"""Real servers on loopback, for the demonstration, the tests and the benchmarks.

``process`` starts, watches and stops one child process; ``server`` is what servers have in common above it: folder,
ports, crash and start again. ``postgres`` and ``broker`` (a mock of Kafka, in this process) are such servers,
``daemon`` runs the relay and the console as processes, ``waiting`` polls until something is so. Other brokers are
the tests' own: ``tests/brokers/harness``.
"""
