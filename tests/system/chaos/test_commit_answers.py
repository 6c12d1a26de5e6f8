"""Commits of Kafka transactions whose answers are lost, or during which the relay is stopped: nothing is repeated."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

import pytest

from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import patience, wait_until
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.kafka_requests import KafkaRequests, Kind, Moment
from tests.system.chaos.looking import delivered
from tests.system.chaos.test_exactly_once import seen

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("chaos-kafka")]

EVENTS = 200


class LostAnswers:
    """Resets a connection in place of the answer to a commit, for some seconds from the first one on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._links: set[int] = set()
        self.lost = 0

    def request(self, link: int, data: bytes) -> None:
        if int.from_bytes(data[4:6]) == Kind.END_TXN:
            self._since = self._since or time.monotonic()
            self._links.add(link)

    def reply(self, link: int, data: bytes) -> bytes:
        if link in self._links:
            self._links.discard(link)
            if self._since is not None and time.monotonic() - self._since < self._seconds:
                self.lost += 1
                raise ConnectionResetError
        return data


def test_a_commit_whose_answer_is_lost_is_asked_for_again(outbox: Outbox, make_broker: MakeBroker) -> None:
    """For longer than one call of the client waits."""
    broker = make_broker("kafka")
    answers = broker.proxy.tap = LostAnswers(3.0)
    outbox.fill(broker.destination, EVENTS)
    env = {**broker.env(), "KAFKA_TRANSACTIONS": "true", "LEASE_TIMEOUT": "60s"}
    with ExitStack() as stack:
        relay = stack.enter_context(Daemon(outbox.relay_url, env))
        wait_until(lambda: relay.running and delivered(outbox) == EVENTS, 60, "every event to be settled")
        assert relay.stop() == 0
    assert answers.lost > 1
    received = seen(broker)
    assert (len(received), received.total()) == (EVENTS, EVENTS)
    assert set(outbox.rows("attempts")) == {(0,)}


# tests/system/simulation/test_transactions.py has a stop at every moment.
@pytest.mark.parametrize(
    "moment",
    [
        Moment(Kind.PRODUCE, False),
        Moment(Kind.END_TXN, True),
        pytest.param(Moment(Kind.PRODUCE, True), marks=pytest.mark.soak),
        pytest.param(Moment(Kind.END_TXN, False), marks=pytest.mark.soak),
    ],
)
def test_a_relay_that_is_stopped_within_a_transaction_leaves_no_lease_and_repeats_nothing(
    outbox: Outbox, make_broker: MakeBroker, moment: Moment
) -> None:
    broker = make_broker("kafka")
    requests = broker.proxy.tap = KafkaRequests(broker.proxy)
    broker.proxy.delay = 0.2  # of every answer, so that much is in transactions
    env = {**broker.env(), "KAFKA_TRANSACTIONS": "true", "LEASE_TIMEOUT": "60s"}
    with Daemon(outbox.relay_url, {**env, "RELAY_ID": "stopping"}) as stopping:

        def stop(_: int) -> bool:
            stopping.process.send_signal(signal.SIGTERM)
            return True

        stopped = requests.at(moment, stop, {"stopping"})
        outbox.fill(broker.destination, 10 * EVENTS)
        wait_until(stopped.is_set, 60, f"{moment}")
        assert stopping.process.wait(patience()) == 0
    assert "DELIVERING" not in outbox.counts()
    broker.proxy.delay = 0.0
    with Daemon(outbox.relay_url, {**env, "RELAY_ID": "next"}) as relay:
        wait_until(lambda: relay.running and delivered(outbox) == 10 * EVENTS, 60, "every event to be delivered")
        assert relay.stop() == 0
    received = seen(broker)
    assert (len(received), received.total()) == (10 * EVENTS, 10 * EVENTS)
    assert set(outbox.rows("attempts")) == {(0,)}
