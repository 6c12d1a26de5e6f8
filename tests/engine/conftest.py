"""A relay in this process: real storage, broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from relay.core.backoff import RetryPolicy
from relay.core.optional_parts import OptionalParts
from relay.engine.relay import Relay
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.outbox.wakeup import OutboxWakeUps
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.fixtures.outbox import Outbox, through
from tests.support.options import engine_options, storage_options

_POOLED = {f"tests.engine.test_{name}" for name in ("claim", "lease", "locked_rows", "relay", "settle")}
"""What runs through PgBouncer in `make test`: each statement of a relay, which the storage's suite sends through it,
too. The soak runs everything through it."""
RETRY = RetryPolicy(max_attempts=3, base_delay=60.0, max_delay=600.0, jitter=0.0)


@dataclass(frozen=True)
class Running:
    """A relay that runs, and what it stands on."""

    relay: Relay
    broker: MemoryPublisher
    telemetry: MemoryTelemetry
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """Stop it and wait for its end."""
        self.relay.stop()
        await self.task


StartRelay = Callable[..., Awaitable[Running]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run twice where no session is needed: connected straight to the server, and through PgBouncer."""
    if "way" in metafunc.fixturenames:
        needs_session = metafunc.definition.get_closest_marker("session") is not None
        pooled = pytest.param("pooled", marks=() if metafunc.module.__name__ in _POOLED else pytest.mark.soak)
        metafunc.parametrize("way", ["direct"] if needs_session else ["direct", pooled])


@pytest.fixture
def outbox(outbox: Outbox, way: str, request: pytest.FixtureRequest) -> Outbox:
    """The outbox, with the way in that the test is run with."""
    return outbox if way == "direct" else through(outbox, request.getfixturevalue("pgbouncer"))


@pytest.fixture
async def start(outbox: Outbox) -> AsyncIterator[StartRelay]:
    """A function that runs a relay with the options given to it; all are stopped after the test."""
    running: list[Running] = []

    async def make(
        broker: MemoryPublisher | None = None,
        relay_id: str = "relay",
        key_order: KeyOrder | None = None,
        wake_ups: OutboxWakeUps | None = None,
        statement_timeout: float = 15.0,
        **options: object,
    ) -> Running:
        values: dict[str, object] = {"connect_retry_interval": 0.1, "health_check_interval": 0.5, "probe_timeout": 0.3}
        values["shutdown_timeout"] = 0.5  # many tests end while the broker holds events
        engine = engine_options(**({"retry": RETRY, "in_order": key_order is not None} | values | options))
        lease, retry = engine.lease_timeout, engine.retry
        storage = PostgresOutbox(
            storage_options(
                outbox.relay_url,
                relay_id,
                lease_timeout=lease,
                retry=retry,
                key_order=key_order,
                statement_timeout=statement_timeout,
            )
        )
        telemetry = MemoryTelemetry()
        publisher = broker or MemoryPublisher()
        relay = Relay(storage, publisher, telemetry, engine, parts=OptionalParts(wake_ups))
        one = Running(relay, publisher, telemetry, asyncio.create_task(relay.run()))
        running.append(one)
        return one

    yield make
    for one in running:
        one.relay.stop()
    await asyncio.gather(*(one.task for one in running), return_exceptions=True)
