"""Fixtures for every test; those of ``tests/support/fixtures`` start a real server when a test asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import uvloop
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent

# How long an example takes depends on what else the machine does; nothing is asserted of it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

pytest_plugins = [
    "tests.support.fixtures.engine",
    "tests.support.fixtures.servers",
    "tests.support.fixtures.postgres",
    "tests.support.fixtures.outbox",
    "tests.support.fixtures.kafka",
    "tests.support.fixtures.nats",
    "tests.support.fixtures.redis",
    "tests.support.fixtures.measured",
    "tests.support.fixtures.spark",
]

_STARTS_A_SERVER = {"servers", "own_postgres", "own_nats", "own_redis", "spark", "spark_cluster"}
_NEEDS_A_SERVER = ("integration", "acceptance", "chaos", "scale", "soak")


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The engine's tests run on the daemon's event loop; those in virtual time make a loop of their own."""
    engine = "engine" in item.path.relative_to(TESTS).parts
    return {"uvloop": uvloop.new_event_loop} if engine else {"asyncio": asyncio.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server, by the fixtures and markers that start one: ``make check`` runs all the others."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & _STARTS_A_SERVER or any(item.get_closest_marker(name) for name in _NEEDS_A_SERVER):
            item.add_marker("server")
