"""What is signed or stamped for others has the database's time, which each claim shows."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from openoutbox.names import TableName
from relay.core.clock import DatabaseClock
from relay.outbox.admin import outbox_check
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.options import storage_options

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
async def test_a_claim_shows_the_databases_time(
    outbox: Outbox, caplog: pytest.LogCaptureFixture, key_order: KeyOrder | None
) -> None:
    if key_order is not None:
        add_extension(outbox.owner_url, TableName(), "key-order")
    clock = DatabaseClock(host=lambda: time.time() - 600.0)
    storage = PostgresOutbox(storage_options(outbox.relay_url, "r", key_order=key_order), clock)
    await storage.open()
    await storage.claim(10, 1 << 20)
    assert clock.offset == 0.0
    outbox.insert([Row("t")])
    assert (await storage.claim(10, 1 << 20)).events
    await storage.close()
    assert clock.offset == pytest.approx(600.0, abs=2.0)
    assert clock.now() == pytest.approx(time.time(), abs=2.0)
    assert "this host's clock is 600 s behind the database's" in caplog.text


@pytest.fixture
def fast_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database's clock is ten minutes ahead of this host's."""
    monkeypatch.setattr(outbox_check, "database_time", lambda _: datetime.now(UTC) + timedelta(minutes=10))


@pytest.mark.usefixtures("fast_database")
def test_check_says_what_receivers_may_refuse(outbox: Outbox) -> None:
    findings, _ = outbox_check.check_storage(
        outbox.relay_url, TableName(), 180.0, retention=1.0, dated=["stamped by x"]
    )
    [finding] = [one for one in findings if one.subject == "clock"]
    assert "600.0 s behind the database's. Receivers refuse a time that is minutes off" in finding.message
    assert "stamped by x" in finding.message
