"""A relay with KAFKA_TRANSACTIONS that starts again under its RELAY_ID waits for none of the leases it had before.

Where the former one still lives, each ends the transactions of the other one, until one of the two stops.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from tests.support.daemon import Daemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.looking import delivered
from tests.system.chaos.test_exactly_once import seen
from tests.system.chaos.test_mixed_fleet import EVENTS, REFUSE, relay

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("chaos-kafka")]

LEASE = 180.0
CLAIM = (
    "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'one', locked_at = NOW() WHERE status = 'PENDING'"
)


def test_what_a_former_life_has_proven_is_settled_and_the_rest_is_sent_at_once(
    outbox: Outbox, make_broker: MakeBroker, measured: Measured
) -> None:
    broker = make_broker("kafka")
    outbox.fill(broker.destination, EVENTS)
    outbox.database.run(REFUSE)
    with ExitStack() as stack:
        former = stack.enter_context(relay(outbox, broker, "one", transactions=True, LEASE_TIMEOUT=f"{LEASE:g}s"))
        wait_until(lambda: former.running and len(seen(broker)) == EVENTS, 60, "every event to be committed")
        former.kill()
        assert delivered(outbox) == 0
        outbox.database.run("DROP TRIGGER refuse_delivered ON openoutbox_events")
        outbox.fill(broker.destination, EVENTS)
        with outbox.database.connect() as connection:
            connection.execute(CLAIM)  # claimed, and in no transaction
        began = time.monotonic()
        again = stack.enter_context(relay(outbox, broker, "one", transactions=True, LEASE_TIMEOUT=f"{LEASE:g}s"))
        wait_until(lambda: again.running and delivered(outbox) == 2 * EVENTS, 60, "every event to be delivered")
        measured(
            fault="kill -9, and a start under the same RELAY_ID", recovery_s=time.monotonic() - began, lease_s=LEASE
        )
        assert again.stop() == 0
    received = seen(broker)
    assert (len(received), received.total()) == (2 * EVENTS, 2 * EVENTS)
    assert sorted(outbox.rows("attempts")) == [(0,)] * EVENTS + [(1,)] * EVENTS


def test_of_two_living_relays_with_one_relay_id_one_stops_and_says_why(
    outbox: Outbox, make_broker: MakeBroker, measured: Measured
) -> None:
    broker, events = make_broker("kafka"), 10_000
    outbox.fill(broker.destination, events)
    with ExitStack() as stack:
        began = time.monotonic()
        pair = [
            stack.enter_context(relay(outbox, broker, "same", transactions=True, LEASE_TIMEOUT="20s")) for _ in range(2)
        ]

        def ended() -> list[Daemon]:
            nonlocal events
            if delivered(outbox) > events - 5_000:  # a quick machine delivers all before they have counted thirty
                outbox.fill(broker.destination, 5_000)
                events += 5_000
            return [one for one in pair if one.running and "another living relay has RELAY_ID same" in one.log()]

        wait_until(ended, 60, "one of them to say that it has a twin")
        stopped_s = time.monotonic() - began
        wait_until(lambda: delivered(outbox) == events, 90, "the other one to deliver")
        assert sorted(one.get("/readyz")[0] for one in pair) == [200, 503]
        assert [one.stop() for one in pair] == [0, 0]
    received = seen(broker)
    assert (len(received), received.total()) == (events, events)
    measured(fault="two living relays with one RELAY_ID", stopped_s=stopped_s, duplicates=0)
