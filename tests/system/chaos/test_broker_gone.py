"""The broker goes away while writers insert: refused, mute, and cut off in the middle; then it comes back.

No event is DEAD, no attempt is used, the relay says why it waits and asks once an interval, and goes on without help.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.tcp_proxy import Mode
from tests.support.waiting import patience, wait_until
from tests.system.chaos.brokers import Broker, Kafka
from tests.system.chaos.load import Writers
from tests.system.chaos.looking import (
    Balance,
    check_finished,
    delivered,
    first_delivery_after,
    log_lines,
    seconds_until,
    watch_setbacks,
)

pytestmark = pytest.mark.timeout(300)

GRACE = patience(6)
"""Seconds of grace for a machine on which other tests run."""

KINDS: dict[str, Sequence[pytest.MarkDecorator]] = {
    "kafka": [pytest.mark.xdist_group("chaos-kafka")],
    "nats": [],
    "redis": [],
    "rabbitmq": [],
    "http": [],
    "sqs": [pytest.mark.aws],
}
FAULTS = [Mode.REFUSE, Mode.SILENCE, Mode.CUT]
SHORT = {("kafka", Mode.SILENCE), ("nats", Mode.REFUSE), ("redis", Mode.CUT)}
"""Each fault once: what is here is the engine's. The soak has all of them for each broker, with an outage of a minute,
and the conformance suite has each fault for each broker."""


@pytest.fixture
def relay(outbox: Outbox, broker: Broker, daemon: StartDaemon) -> Daemon:
    watch_setbacks(outbox)
    return daemon(**broker.env(), PUBLISHER_CONNECT_RETRY_INTERVAL="1s").wait_ready()


def check_not_ready(relay: Daemon) -> None:
    status, body = relay.get("/readyz")
    assert status == 503
    assert '"broker":"unreachable: ' in body


def check_no_attempt_used(outbox: Outbox, broker: Broker, writers: Writers) -> Balance:
    outbox.wait_finished(60)
    check_finished(outbox)
    assert outbox.rows("max(attempts), max(last_error)") == [(0, None)]
    balance = Balance.of(writers, broker.received())
    balance.check()
    return balance


def be_gone(
    outbox: Outbox, broker: Broker, relay: Daemon, fault: Mode, outage: float, interval: float
) -> dict[str, object]:
    """Take the broker away for ``outage`` seconds while events drain; check everything and return the figures."""
    with Writers(outbox.url, broker.destination) as writers:
        wait_until(lambda: relay.running and delivered(outbox) > 300, what="the drain to be under way")
        began = time.time()
        broker.proxy.set(fault)
        noticed = seconds_until(lambda: relay.metric("openoutbox_relay_state") == 2, 40, "the relay to be paused")
        check_not_ready(relay)
        paused, connections = time.monotonic(), broker.proxy.accepted
        wait_until(lambda: time.monotonic() - paused >= outage, outage + 10, "the outage to last")
        connections = broker.proxy.accepted - connections
        assert "DELIVERING" not in outbox.counts()
        assert relay.metric("openoutbox_relay_state") == 2
        back = time.time()
        broker.proxy.set(Mode.FLOW)
        recovery = first_delivery_after(outbox, back, 60)
        ended = time.time()
    balance = check_no_attempt_used(outbox, broker, writers)
    assert recovery < interval + 2.0 + GRACE
    if not isinstance(broker, Kafka):  # librdkafka connects more than once within one probe
        assert connections <= outage / interval + 2
    lines, busiest = log_lines(relay, began, ended)
    assert lines <= ended - began
    return {
        "fault": f"{type(broker).__name__} gone: {fault.name.lower()}, {outage:g} s",
        "paused_after_s": noticed,
        "recovery_s": recovery,
        "connections": connections,
        "duplicates": balance.duplicates,
        "lost": balance.lost,
        "attempts_used": 0,
        "log_lines": lines,
        "busiest_second": busiest,
        "events": balance.committed,
    }


@pytest.mark.parametrize(
    ("broker", "fault"),
    [
        pytest.param(kind, fault, marks=marks, id=f"{kind}-{fault.name.lower()}")
        for kind, marks in KINDS.items()
        for fault in FAULTS
        if (kind, fault) in SHORT
    ],
    indirect=["broker"],
)
def test_a_broker_that_is_gone_costs_nothing_but_time(
    outbox: Outbox, broker: Broker, relay: Daemon, fault: Mode, measured: Measured
) -> None:
    measured(**be_gone(outbox, broker, relay, fault, 3.0, 1.0))


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("broker", [pytest.param(kind, marks=marks) for kind, marks in KINDS.items()], indirect=True)
def test_a_broker_that_is_gone_for_a_minute(
    outbox: Outbox, broker: Broker, daemon: StartDaemon, fault: Mode, measured: Measured
) -> None:
    relay = daemon(**broker.env(), PUBLISHER_CONNECT_RETRY_INTERVAL="5s").wait_ready()
    measured(**be_gone(outbox, broker, relay, fault, 60.0, 5.0))
