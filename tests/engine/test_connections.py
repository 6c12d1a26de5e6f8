"""What a relay holds of the database: few connections with its name, and no transaction while it publishes."""

from __future__ import annotations

import pytest

from tests.engine.conftest import StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually

# Behind a pool the server sees the pool's connections, not the relay's.
pytestmark = pytest.mark.session

LOOKS = 30
"""How often the server is asked while the broker holds back its answers."""

_CONNECTIONS = """
SELECT state, xact_start IS NOT NULL, backend_xid IS NOT NULL OR backend_xmin IS NOT NULL
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'openoutbox-relay/named'
"""


async def test_no_transaction_is_open_while_events_are_with_the_broker(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("t")] * 50)
    broker = MemoryPublisher()
    broker.hold()
    # No look at the backlog, no reaping and no probe comes in between, so whatever is open is so for the events.
    await start(broker, relay_id="named", poll_interval=300.0, health_check_interval=300.0, sample_interval=300.0)
    await eventually(lambda: len(broker.held) == 50)
    await eventually(lambda: all(state == "idle" for state, _, _ in outbox.database.run(_CONNECTIONS)))
    for _ in range(LOOKS):
        connections = outbox.database.run(_CONNECTIONS)
        assert 1 <= len(connections) <= 3
        assert set(connections) == {("idle", False, False)}
    assert outbox.counts() == {"DELIVERING": 50}
    broker.answer()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 50})
