"""What every test may use: the fixtures of ``tests/fixtures``, which start real servers when a test asks for one."""

from __future__ import annotations

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
