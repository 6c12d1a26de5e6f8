"""Fixtures for every test; those of ``tests/support/fixtures`` start a real server when a test asks for one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does; nothing is asserted of it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

pytest_plugins = [
    "tests.support.fixtures.engine",
    "tests.support.fixtures.event_loop",
    "tests.support.fixtures.kafka",
    "tests.support.fixtures.measured",
    "tests.support.fixtures.nats",
    "tests.support.fixtures.outbox",
    "tests.support.fixtures.postgres",
    "tests.support.fixtures.redis",
    "tests.support.fixtures.servers",
    "tests.support.fixtures.spark",
]

_STARTS_A_SERVER = {"servers", "own_postgres", "own_nats", "own_redis", "spark", "spark_cluster"}
_NEEDS_A_SERVER = ("integration", "acceptance", "chaos", "scale", "soak")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server, by the fixtures and markers that start one: ``make check`` runs all the others."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & _STARTS_A_SERVER or any(item.get_closest_marker(name) for name in _NEEDS_A_SERVER):
            item.add_marker("server")
