"""Fixtures for every test; those of ``tests/support/fixtures`` start a real server when a test asks for one."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from relay.localservers.server import LocalServer
from tests.support.waiting import PATIENCE

# How long an example takes depends on what else the machine does; nothing is asserted of it.
# The same examples in each run: a new counterexample belongs into a run that looks for one, not into another change's.
EXPLORE = bool(os.environ.get("TEST_EXPLORE"))
settings.register_profile("tests", deadline=None, derandomize=not EXPLORE, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

LocalServer.patience = PATIENCE

# Where it is set, each of the hundreds of processes that the tests start compiles its modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# An importing plugin comes after what it imports, or pytest could not rewrite the imported one's assertions.
pytest_plugins = [
    "relay.conformance.plugin",
    "tests.support.needs",
    "tests.support.collecting",
    "tests.support.schedule",
    "tests.support.durations",
    "tests.support.fixtures.event_loop",
    "tests.support.fixtures.servers",
    "tests.support.fixtures.postgres",
    "tests.support.fixtures.outbox",
    "tests.support.fixtures.deliverylog",
    "tests.support.fixtures.kafka",
    "tests.support.fixtures.nats",
    "tests.support.fixtures.redis",
    "tests.support.fixtures.rabbitmq",
    "tests.support.fixtures.http",
    "tests.support.fixtures.aws",
    "tests.support.fixtures.daemon",
    "tests.support.fixtures.measured",
    "tests.support.fixtures.engine",
    "tests.support.fixtures.spark",
]
