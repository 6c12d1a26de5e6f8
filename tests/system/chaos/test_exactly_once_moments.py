"""KAFKA_TRANSACTIONS: connections cut at each request, and a finder that dies while it asks about a dead relay.

The short form of ``test_exactly_once_long``.
"""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest

from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.kafka_requests import KafkaRequests, Kind, Moment, has_port
from tests.system.chaos.looking import delivered
from tests.system.chaos.proven_scene import MOMENTS
from tests.system.chaos.test_exactly_once import seen
from tests.system.chaos.test_mixed_fleet import REFUSE, actions, relay

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("chaos-kafka")]

EVENTS = 1000
FEW = 50


class CutsOnce(KafkaRequests):
    """Cuts the connection at the first of each of these moments."""

    def __init__(self, proxy: TcpProxy) -> None:
        super().__init__(proxy)
        self.left = set(MOMENTS)

    def _meet(self, link: int, kind: int, holder: str, *, answered: bool) -> None:
        moment = next((one for one in self.left if one == (kind, answered)), None)
        if moment is not None:
            self.left.discard(moment)
            raise ConnectionResetError


def test_connections_cut_at_each_request_and_at_each_answer_repeat_nothing(
    outbox: Outbox, make_broker: MakeBroker, measured: Measured
) -> None:
    broker = make_broker("kafka")
    tap = broker.proxy.tap = CutsOnce(broker.proxy)
    broker.proxy.delay = 0.05
    outbox.fill(broker.destination, EVENTS)
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(relay(outbox, broker, name, transactions=True, LEASE_TIMEOUT="3s"))
            for name in ("one", "other")
        )
        leased = "SELECT EXISTS (SELECT FROM openoutbox_events WHERE locked_by = 'one')"
        wait_until(lambda: one.running and outbox.database.run(leased) == [(True,)], 60, "leases of one relay")
        one.kill()
        wait_until(lambda: other.running and delivered(outbox) == EVENTS, 90, "every event to be delivered")
    broker.proxy.tap, broker.proxy.delay = None, 0.0
    assert tap.left == set()
    received = seen(broker)
    assert (len(received), received.total()) == (EVENTS, EVENTS)
    measured(fault=f"connections cut once at each of {len(MOMENTS)} moments, KAFKA_TRANSACTIONS", duplicates=0, lost=0)


# The other moment is one of ``test_exactly_once_long``, too.
@pytest.mark.parametrize(
    "moment",
    [Moment(Kind.FETCH, True), pytest.param(Moment(Kind.INIT_PRODUCER_ID, True), marks=pytest.mark.soak)],
)
def test_a_finder_that_dies_while_it_asks_about_a_dead_relay_repeats_nothing(
    outbox: Outbox, make_broker: MakeBroker, moment: Moment
) -> None:
    """Its requests have the dead relay's transactional ids: it is known by its connection alone."""
    broker = make_broker("kafka")
    outbox.fill(broker.destination, FEW)
    outbox.database.run(REFUSE)
    with relay(outbox, broker, "dying", transactions=True, LEASE_TIMEOUT="3s") as dying:
        wait_until(lambda: dying.running and len(seen(broker)) == FEW, 60, "every event to be committed")
        dying.kill()
    outbox.database.run("DROP TRIGGER refuse_delivered ON openoutbox_events")
    requests = broker.proxy.tap = KafkaRequests(broker.proxy)
    with relay(outbox, broker, "finder", transactions=True, LEASE_TIMEOUT="3s") as finder:

        def kill(port: int) -> bool:
            is_finder = has_port(finder.pid, port)
            if is_finder:
                os.kill(finder.pid, signal.SIGKILL)
            return is_finder

        holders = {"dying"} if moment.kind is Kind.INIT_PRODUCER_ID else None
        wait_until(requests.at(moment, kill, holders).is_set, 60, f"{moment}")
    with relay(outbox, broker, "next", transactions=True, LEASE_TIMEOUT="3s") as last:
        wait_until(lambda: last.running and delivered(outbox) == FEW, 60, "every event to be settled")
        assert "leases_proven" in actions(last)
    received = seen(broker)
    assert (len(received), received.total()) == (FEW, FEW)
