"""What GetStats costs on a large table. Figures are printed; what is asserted is the plan's reach, not the clock."""

from __future__ import annotations

import time

import pytest

from relay.outbox.storage import PostgresOutbox
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

_DELIVERED = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, delivered_at)
SELECT gen_random_uuid(), 't', '\\x00', 'DELIVERED', now() FROM generate_series(1, 5000000)
"""
_PENDING = """
INSERT INTO openoutbox_events (event_id, event_type, payload, attempts)
SELECT gen_random_uuid(), 't', '\\x00', n % 2 FROM generate_series(1, 100000) AS n
"""
_SCHEDULED = """
INSERT INTO openoutbox_events (event_id, event_type, payload, available_at)
SELECT gen_random_uuid(), 't', '\\x00', now() + interval '1 day' FROM generate_series(1, 2000000)
"""


async def _seconds(storage: PostgresOutbox, times: int = 5) -> tuple[float, float]:
    full, lag = [], []
    for _ in range(times):
        started = time.perf_counter()
        await storage.backlog()
        full.append(time.perf_counter() - started)
        started = time.perf_counter()
        await storage.oldest_due_age()
        lag.append(time.perf_counter() - started)
    return sorted(full)[times // 2], sorted(lag)[times // 2]


async def test_get_stats_on_five_million_delivered_rows(outbox: Outbox, capsys: pytest.CaptureFixture[str]) -> None:
    for statement in (_DELIVERED, _PENDING):
        outbox.database.run(statement)
    outbox.database.run("VACUUM ANALYZE openoutbox_events")
    storage = PostgresOutbox(storage_options(url=outbox.url, relay_id="scale"))
    await storage.open()
    try:
        backlog = await storage.backlog()
        assert (backlog.pending_new, backlog.pending_retrying) == (50_000, 50_000)
        small = await _seconds(storage)
        outbox.database.run(_SCHEDULED)
        outbox.database.run("VACUUM ANALYZE openoutbox_events")
        assert (await storage.backlog()).pending_new == 2_050_000
        large = await _seconds(storage)
    finally:
        await storage.close()
    with capsys.disabled():
        print(f"\nGetStats, 5 M delivered and 100,000 pending: {small[0] * 1000:.1f} ms, lag {small[1] * 1000:.2f} ms")
        print(f"and 2 M scheduled rows more: {large[0] * 1000:.1f} ms, lag {large[1] * 1000:.2f} ms")
