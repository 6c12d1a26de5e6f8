"""The delivery log's place in the daemon, without a database."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest
from starlette.types import ASGIApp

from relay.app.delivery_log import DeliveryLogParts, readings
from relay.app.run import build_delivery_log
from relay.core.status import Exposition, Health, Readiness, Stats
from relay.engine.relay import Relay
from relay.engine.status import RelayStatus
from relay.server.routes import application
from relay.settings.settings import Settings
from relay.telemetry.prometheus import exposition_of
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryOutbox, MemoryTable
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.options import engine_options

LOGGED = {
    "STORAGE_URL": "postgres://u:p@h/db",
    "DELIVERY_LOG_URL": "memory://",
    "DELIVERY_LOG_RECORD": "failed",
}


class State:
    written = 7
    dropped = 3
    quarantined = 2
    trouble: str = ""
    ready_until: datetime | None = datetime(2027, 3, 1, tzinfo=UTC)


class Well:
    def health(self) -> Health:
        return Health()

    def readiness(self) -> Readiness:
        return Readiness(degraded={"other": ""})

    async def stats(self) -> Stats | None:
        return None

    def metrics(self, accept: str) -> Exposition:
        return Exposition(b"", "text/plain")


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://relay")


def test_without_a_url_there_is_no_log() -> None:
    settings = Settings.from_env({"STORAGE_URL": "postgres://u:p@h/db"})
    assert build_delivery_log(settings) is None


async def test_trouble_is_degraded_and_not_unready(monkeypatch: pytest.MonkeyPatch) -> None:
    relay = Relay(MemoryOutbox(MemoryTable()), MemoryPublisher(), MemoryTelemetry(), engine_options())
    relay.health.storage_worked("open")
    relay.health.broker_worked()
    parts = DeliveryLogParts(Settings.from_env(LOGGED))
    monkeypatch.setattr(type(parts.recorder), "trouble", "it hangs")
    view = RelayStatus(relay, "r1", Well().metrics, parts.degraded)
    async with client_of(application(view)) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["log"]) == (200, "degraded: it hangs")


def test_what_was_dropped_is_counted() -> None:
    text = exposition_of(lambda: readings(State()), "r1")
    assert 'openoutbox_log_dropped_total{relay_id="r1"} 3.0' in text
    assert 'openoutbox_log_written_total{relay_id="r1"} 7.0' in text
    assert 'openoutbox_log_quarantined_total{relay_id="r1"} 2.0' in text
    assert 'openoutbox_log_ready_until_timestamp_seconds{relay_id="r1"} 1.8038592e+09' in text


def test_a_log_that_needs_no_months_exports_no_time() -> None:
    state = State()
    state.ready_until = None
    assert "ready_until_timestamp_seconds{" not in exposition_of(lambda: readings(state), "r1")
