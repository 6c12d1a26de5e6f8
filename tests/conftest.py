"""Fixtures for every test; those of ``tests/support/fixtures`` start a real server when a test asks for one."""

from __future__ import annotations

import os
import resource
from importlib.util import find_spec

from hypothesis import HealthCheck, settings

from relay.localservers.process import share_ports
from relay.localservers.server import LocalServer
from tests.support.waiting import PATIENCE

# How long an example takes depends on what else the machine does; nothing is asserted of it.
# The same examples in each run: a new counterexample belongs into a run that looks for one, not into another change's.
EXPLORE = bool(os.environ.get("TEST_EXPLORE"))
settings.register_profile("tests", deadline=None, derandomize=not EXPLORE, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

LocalServer.patience = PATIENCE

# Each worker has ports of its own: a port is free when it is asked for, and taken when its server begins to listen.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    share_ports(int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))

# Where it is set, each of the hundreds of processes that the tests start compiles its modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Embedded ClickHouse keeps three descriptors for each thread that it ever had; many systems allow a process 1,024.
_SOFT, _HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
_MOST = 20_000 if _HARD == resource.RLIM_INFINITY else min(_HARD, 20_000)
if _SOFT != resource.RLIM_INFINITY and _SOFT < _MOST:
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST, _HARD))

# What each plugin imports: one whose library is missing is left out, so that tests/core needs the test tools alone.
# An importing plugin comes after what it imports, or pytest could not rewrite the imported one's assertions.
_PLUGINS = {
    "relay.conformance.plugin": "pytest",
    "tests.support.needs": "pytest",
    "tests.support.collecting": "pytest",
    "tests.support.schedule": "pytest",
    "tests.support.durations": "pytest",
    "tests.support.fixtures.event_loop": "uvloop",
    "tests.support.fixtures.servers": "pytest",
    "tests.support.fixtures.database": "psycopg",
    "tests.support.fixtures.postgres": "psycopg",
    "tests.support.fixtures.outbox": "psycopg",
    "tests.support.fixtures.deliverylog": "psycopg",
    "tests.support.fixtures.kafka": "confluent_kafka",
    "tests.support.fixtures.nats": "nats",
    "tests.support.fixtures.redis": "redis",
    "tests.support.fixtures.rabbitmq": "pika",
    "tests.support.fixtures.http": "trustme",
    "tests.support.fixtures.aws": "boto3",
    "tests.support.fixtures.daemon": "psycopg",
    "tests.support.fixtures.measured": "pytest",
    "tests.support.fixtures.engine": "pydantic",
    "tests.support.fixtures.spark": "psycopg",
}
pytest_plugins = [plugin for plugin, library in _PLUGINS.items() if find_spec(library) is not None]
