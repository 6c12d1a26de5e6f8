"""What one session sends arrives in its order, however many parts a full client sends it in."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime

from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Resolution
from tests.support.options import retry_policy
from tests.system.simulation.broker import Broker, Client
from tests.system.simulation.ledger import Ledger
from tests.system.simulation.scheduler import Process, Scheduler


def test_what_a_full_client_sends_in_parts_arrives_in_order() -> None:
    scheduler = Scheduler()
    ledger = Ledger(lambda: scheduler.now, retry_policy(), lambda: datetime(2030, 1, 1, tzinfo=UTC))
    broker = Broker(scheduler, ledger, random.Random(1))
    broker.shuffled = 1  # answers come one by one, so that parts follow each other closely
    process = Process(scheduler, "a#1")  # type: ignore[abstract]
    client = Client(broker, process, timeout=5.0, capacity=3, keeps_runs=True)
    events = [OutboxEvent(EventId(f"e{one}"), "x", "k", b"", "{}", 0, 0.0, None) for one in range(200)]
    answered: list[Resolution] = []

    def sink(resolutions: Sequence[Resolution]) -> None:
        answered.extend(resolutions)

    task = process.create_task(client.publish(events, sink))
    scheduler.run(2.0)
    assert task.done()
    assert len(answered) == len(events)
    assert ledger.order == [event.event_id for event in events]
