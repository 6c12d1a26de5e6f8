"""A relay beside pauses: what is paused waits, the rest flows on, and all of it is said."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from relay.core.errors import SchemaError, StorageUnavailable
from relay.core.pause import EVERYTHING, Pause, PauseScope, PauseTarget
from relay.core.status import Exposition
from relay.core.telemetry import RelayState
from relay.engine.status import RelayStatus
from tests.support.doubles.virtual_relay import VirtualRelay

GOOD = PauseTarget(PauseScope.TYPE, "good")


@pytest.fixture
def relay() -> Iterator[VirtualRelay]:
    relay = VirtualRelay()
    yield relay
    relay.end()


def paused(target: PauseTarget) -> Pause:
    return Pause(target, None, "ann", "broken consumer", datetime(2030, 1, 1, tzinfo=UTC))


def status(relay: VirtualRelay) -> RelayStatus:
    return RelayStatus(relay.relay, "relay", lambda _: Exposition(b"", ""))


def test_a_paused_type_waits_and_another_is_delivered(relay: VirtualRelay) -> None:
    relay.run(1.0)
    relay.table.pauses.append(paused(GOOD))
    relay.run(1.1)
    relay.insert(3)
    relay.insert(2, "other")
    relay.run(30.0)
    assert (relay.delivered("good"), relay.delivered("other")) == (0, 2)
    relay.table.pauses.clear()
    assert relay.until(lambda: relay.delivered("good") == 3) < 1.5


def test_what_is_in_flight_is_finished(relay: VirtualRelay) -> None:
    relay.run(0.1)
    relay.broker.hold()
    relay.insert(3)
    relay.until(lambda: relay.relay.inflight.events == 3)
    relay.table.pauses.append(paused(EVERYTHING))
    relay.run(1.1)
    relay.insert(2)
    relay.run(3.0)
    relay.do(relay.broker.answer)
    relay.run(1.0)
    assert relay.counts() == {"DELIVERED": 3, "PENDING": 2}


def test_a_paused_relay_is_ready_and_says_so(relay: VirtualRelay, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    relay.table.pauses.append(paused(EVERYTHING))
    relay.run(3.0)
    readiness = status(relay).readiness()
    assert readiness.ready
    sentence = "the whole outbox is paused by ann since 2030-01-01T00:00:00Z: broken consumer"
    assert list(readiness.pauses) == [sentence]
    assert relay.relay.pauses.everything == paused(EVERYTHING)
    assert relay.telemetry.latest_pauses == 1
    assert relay.telemetry.states[-1][0] is RelayState.ACTIVE
    assert [record.message for record in caplog.records if vars(record).get("action") == "paused"] == [sentence]
    relay.table.pauses.clear()
    relay.run(2.0)
    assert not status(relay).readiness().pauses
    assert relay.telemetry.latest_pauses == 0
    assert [record.message for record in caplog.records if vars(record).get("action") == "resumed"] == [
        "the whole outbox is resumed"
    ]


def test_pauses_that_cannot_be_read_stay_in_force(relay: VirtualRelay) -> None:
    relay.table.pauses.append(paused(GOOD))
    relay.run(2.0)
    relay.pauses.fail_with = StorageUnavailable("no answer within 2 s")
    relay.insert(1)
    relay.insert(1, "other")
    relay.run(30.0)
    assert (relay.delivered("good"), relay.delivered("other")) == (0, 1)
    assert not status(relay).readiness().degraded
    relay.pauses.fail_with = SchemaError("no right; run: GRANT SELECT", "42501")
    relay.run(2.0)
    assert dict(status(relay).readiness().degraded) == {"pauses": "no right; run: GRANT SELECT"}
    assert status(relay).readiness().ready
