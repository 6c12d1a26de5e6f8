"""Relays with and without KAFKA_TRANSACTIONS on one table: what one has proven the other does not repeat."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, TopicPartition

from relay.brokers.kafka.proofs import topic_of
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.waiting import patience, wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.looking import delivered
from tests.system.chaos.test_exactly_once import seen

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("chaos-kafka")]

EVENTS = 50
REFUSE = """
CREATE FUNCTION refuse_delivered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
CREATE TRIGGER refuse_delivered BEFORE UPDATE ON openoutbox_events FOR EACH ROW
WHEN (NEW.status = 'DELIVERED') EXECUTE FUNCTION refuse_delivered();
"""


def relay(outbox: Outbox, broker: Broker, relay_id: str, *, transactions: bool, **variables: str) -> Daemon:
    pace = {"LEASE_TIMEOUT": "5s", "KAFKA_WRITE_TIMEOUT": "2s", "RETRY_BASE_DELAY": "100ms", "RELAY_ID": relay_id}
    env = {**broker.env(), **pace, **variables, "KAFKA_TRANSACTIONS": str(transactions).lower()}
    return Daemon(outbox.relay_url, env)


def actions(daemon: Daemon) -> list[str]:
    return [line["action"] for line in daemon.log_lines() if "action" in line]


def proofs(outbox: Outbox, broker: Broker) -> int:
    """How much is in the topic of proofs."""
    name = outbox.database.url.rpartition("/")[2].partition("?")[0]
    reader = Consumer({"bootstrap.servers": broker.env()["PUBLISHER_URL"], "group.id": "reader"})
    try:
        place = TopicPartition(topic_of(f"{name}.public.openoutbox_events"), 0)
        return int(reader.get_watermark_offsets(place, timeout=patience())[1])
    finally:
        reader.close()


def test_a_relay_without_transactions_asks_for_the_proofs_of_one_that_died(
    outbox: Outbox, make_broker: MakeBroker
) -> None:
    broker = make_broker("kafka")
    outbox.fill(broker.destination, EVENTS)
    outbox.database.run(REFUSE)
    with relay(outbox, broker, "with", transactions=True) as dying:
        wait_until(lambda: dying.running and len(seen(broker)) == EVENTS, 60, "every event to be committed")
        dying.kill()
    assert delivered(outbox) == 0
    outbox.database.run("DROP TRIGGER refuse_delivered ON openoutbox_events")
    with relay(outbox, broker, "without", transactions=False) as finder:
        wait_until(lambda: finder.running and delivered(outbox) == EVENTS, 60, "every event to be settled")
        assert "leases_proven" in actions(finder)
        assert finder.stop() == 0
    received = seen(broker)
    assert (len(received), received.total()) == (EVENTS, EVENTS)


def test_transactions_wait_until_every_living_relay_has_them(outbox: Outbox, make_broker: MakeBroker) -> None:
    broker = make_broker("kafka")
    add_extension(outbox.owner_url, TableName(), "fleet")
    with outbox.database.connect() as connection:
        give_rights(connection)
    with ExitStack() as stack:
        other = stack.enter_context(relay(outbox, broker, "without", transactions=False)).wait_ready()
        wait_until(lambda: outbox.database.run("SELECT count(*) FROM openoutbox_relays") == [(1,)], what="its row")
        os.kill(other.pid, signal.SIGSTOP)  # it lives, and takes no events
        own = stack.enter_context(relay(outbox, broker, "with", transactions=True))
        outbox.fill(broker.destination, EVENTS)
        wait_until(lambda: own.running and delivered(outbox) == EVENTS, 60, "delivery without transactions")
        [line] = [line for line in own.log_lines() if line.get("action") == "transactions_off"]
        assert "without" in line["msg"]
        assert proofs(outbox, broker) == 0
        os.kill(other.pid, signal.SIGCONT)
        assert other.stop() == 0
        wait_until(lambda: own.running and "transactions_on" in actions(own), 60, "the other relay to be gone")
        outbox.fill(broker.destination, EVENTS)
        wait_until(lambda: own.running and delivered(outbox) == 2 * EVENTS, 60, "delivery in transactions")
        assert proofs(outbox, broker) > 0


def test_routes_to_one_kafka_are_exactly_once_under_the_names_of_the_routes(
    outbox: Outbox, make_broker: MakeBroker
) -> None:
    broker = make_broker("kafka")
    prefix, event_type = broker.destination.split(".")
    outbox.fill(event_type, EVENTS)
    outbox.database.run(REFUSE)
    with relay(outbox, broker, "dying", transactions=True, ROUTE_PREFIX=f"{prefix}.") as dying:
        wait_until(lambda: dying.running and len(seen(broker)) == EVENTS, 60, "every event to be committed")
        dying.kill()
    outbox.database.run("DROP TRIGGER refuse_delivered ON openoutbox_events")
    with relay(outbox, broker, "finder", transactions=True, ROUTE_PREFIX=f"{prefix}.") as finder:
        wait_until(lambda: finder.running and delivered(outbox) == EVENTS, 60, "every event to be settled")
    received = seen(broker)
    assert (len(received), received.total()) == (EVENTS, EVENTS)
