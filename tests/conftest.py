"""What every test may use: the fixtures of ``tests/fixtures``, which start real servers when a test asks for one."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does; nothing is asserted of it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.postgres",
    "tests.fixtures.outbox",
    "tests.fixtures.kafka",
    "tests.fixtures.nats",
    "tests.fixtures.redis",
    "tests.fixtures.measured",
    "tests.fixtures.spark",
]
