"""KAFKA_TRANSACTIONS for one of two destinations: Kafka's readers see each event once, the other has all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.daemon import Daemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.servers.tcp_proxy import Mode
from tests.support.waiting import patience, wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.looking import delivered
from tests.system.chaos.test_exactly_once import seen

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("chaos-kafka"), pytest.mark.redis]

EVENTS = 2_000
KILLS = 2
REFUSE = """
CREATE FUNCTION refuse_settling() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
CREATE TRIGGER refuse_settling BEFORE UPDATE ON openoutbox_events FOR EACH ROW
WHEN (OLD.status = 'DELIVERING' AND NEW.status <> 'DELIVERING') EXECUTE FUNCTION refuse_settling();
"""


class Pair:
    """Kafka, in transactions, beside Redis: both get each event, under the name of Kafka's topic."""

    def __init__(self, outbox: Outbox, bus: Broker, cache: Broker, folder: Path, stack: ExitStack) -> None:
        self.outbox, self.bus, self.cache, self._stack = outbox, bus, cache, stack
        bus_url, cache_url = (one.env()["PUBLISHER_URL"] for one in (bus, cache))
        routes, destinations = folder / "routes.toml", folder / "destinations.toml"
        routes.write_text(
            f'[[route]]\ntype = "chaos.*"\nvia = ["bus", "cache"]\nto = ["{bus.destination}", "{cache.destination}"]\n'
        )
        destinations.write_text(
            f'[bus]\nurl = "kafka://{bus_url}"\nkafka_transactions = true\nkafka_write_timeout = "2s"\n'
            f'[cache]\nurl = "{cache_url}"\n'
        )
        files = {"ROUTES_FILE": str(routes), "DESTINATIONS_FILE": str(destinations)}
        self._env = {**files, "LEASE_TIMEOUT": "6s", "RETRY_BASE_DELAY": "100ms", "BATCH_SIZE": "50"}

    def relay(self, relay_id: str) -> Daemon:
        return self._stack.enter_context(Daemon(self.outbox.relay_url, {**self._env, "RELAY_ID": relay_id}))

    def add_column(self) -> None:
        assert add_extension(self.outbox.owner_url, TableName(), "fan-out")
        with self.outbox.database.connect() as connection:
            give_rights(connection)


@pytest.fixture
def pair(outbox: Outbox, make_broker: MakeBroker, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(outbox, make_broker("kafka"), make_broker("redis"), tmp_path, stack)


def test_what_kafka_has_of_a_dead_relays_claim_goes_to_the_other_destination_alone(pair: Pair) -> None:
    pair.add_column()
    pair.outbox.fill("chaos.event", 20)
    pair.outbox.database.run(REFUSE)
    pair.cache.proxy.set(Mode.REFUSE)
    dying = pair.relay("dying")
    wait_until(lambda: dying.running and len(seen(pair.bus)) == 20, what="Kafka to have every event")
    dying.kill()
    assert pair.outbox.counts() == {"DELIVERING": 20}
    pair.outbox.database.run("DROP TRIGGER refuse_settling ON openoutbox_events")
    finder = pair.relay("finder")

    def noted() -> bool:
        return finder.running and [*pair.outbox.rows("status, acknowledged_by")].count(("PENDING", ["bus"])) == 20

    wait_until(noted, what="the proofs to be written down")
    pair.cache.proxy.set(Mode.FLOW)
    wait_until(lambda: finder.running and delivered(pair.outbox) == 20, what="Redis to have every event, too")
    received = seen(pair.bus)
    assert (len(received), received.total(), len(pair.cache.received())) == (20, 20, 20)
    assert "leases_proven" in [line.get("action") for line in finder.log_lines()]
    assert set(pair.outbox.rows("acknowledged_by")) == {(None,)}
    assert finder.stop() == 0


def test_relays_that_are_killed_repeat_nothing_to_kafka_and_lose_nothing_for_redis(
    pair: Pair, measured: Measured
) -> None:
    pair.add_column()
    pair.outbox.fill("chaos.event", EVENTS)
    for each in (pair.bus, pair.cache):
        each.proxy.delay = 0.05  # of every answer, so that much is in flight at each kill
    relays = [pair.relay(f"relay-{number}") for number in range(2)]
    for number in range(KILLS):
        before, one = delivered(pair.outbox), number % 2
        wait_until(lambda: delivered(pair.outbox) > before or before == EVENTS, what="the relays to deliver")  # noqa: B023
        relays[one].kill()
        relays[one] = pair.relay(f"relay-{one}")
    for each in (pair.bus, pair.cache):
        each.proxy.delay = 0.0
    wait_until(lambda: delivered(pair.outbox) == EVENTS, 120, "every event to be delivered")
    wait_until(lambda: len(seen(pair.bus)) >= EVENTS, what="a reader of committed messages to see every event")
    received, cached = seen(pair.bus), pair.cache.received()
    events = {event_id for (event_id,) in pair.outbox.rows("event_id::text")}
    assert received.keys() == cached.keys() == events
    assert {one: times for one, times in received.items() if times > 1} == {}
    assert [relay.stop() for relay in relays] == [0, 0]
    measured(
        fault="kill -9, events for Kafka with KAFKA_TRANSACTIONS and for Redis",
        kills=KILLS,
        events=EVENTS,
        duplicates=0,
        duplicates_of_redis=cached.total() - len(cached),
    )


def test_without_the_column_it_does_not_start_and_says_why(pair: Pair) -> None:
    relay = pair.relay("relay")
    assert relay.process.wait(patience()) == 2
    [line] = [line for line in relay.log_lines() if line.get("action") == "failed"]
    assert "relay-cli migrate --with fan-out" in line["msg"]
