"""Real servers for tests, benchmarks and demonstrations: each a small class with ``start``, ``stop`` and an address.

Nothing here knows pytest; the fixtures are in ``tests/support/fixtures``. ``shared`` lets all processes of one test
run use one server of each kind.
"""
