"""KAFKA_TRANSACTIONS through all at once: 100,000 events, and relays, connections, broker and database that fail.

Each request to Kafka and each answer is a moment at which a relay is killed, frozen beyond its lease, and cut off.
The broker is killed, the database is killed, and then lost: its synchronous standby is promoted. Without the setting
the same brings repeats.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from relay.localservers.postgres import PostgresServer
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.servers.standby import StandbyServer
from tests.support.servers.tcp_proxy import TcpProxy
from tests.system.chaos.brokers import Broker, Kafka, ProxiedKafka
from tests.system.chaos.proven_scene import (
    ALWAYS,
    MOMENTS,
    Fault,
    How,
    Reader,
    Relays,
    Scene,
    moments_of,
)
from tests.system.chaos.test_database_gone import killed
from tests.system.chaos.test_exactly_once import seen

pytestmark = [pytest.mark.timeout(3600), pytest.mark.xdist_group("chaos-kafka")]

EVENTS = 100_000
KILLS = 60
PARTS = 3
SEED = 1


class Servers:
    """Kafka behind a proxy, and PostgreSQL with a synchronous standby under one address."""

    def __init__(self, proxy: TcpProxy, kafka: ProxiedKafka, primary: PostgresServer, stack: ExitStack) -> None:
        self._proxy, self._kafka, self._primary = proxy, kafka, primary
        self._standby = stack.enter_context(StandbyServer(primary))
        self._standby.follow_synchronously()

    def outbox(self, *, ordered: bool) -> Outbox:
        """An outbox whose database is wherever the primary is."""
        outbox = Outbox.create(create_database(self._primary.url))
        if ordered:
            add_extension(outbox.owner_url, TableName(), "key-order")
        hosts = f"127.0.0.1:{self._primary.port},127.0.0.1:{self._standby.port}"
        url = f"postgresql://postgres@{hosts}/{outbox.database.name}?target_session_attrs=read-write"
        return Outbox(replace(outbox.database, url=url), url)

    def restart_broker(self) -> None:
        """After kill -9."""
        self._kafka.stop(signal.SIGKILL)
        self._kafka.start()

    def restart_database(self) -> None:
        """After kill -9."""
        with killed(self._primary, self._proxy):
            pass

    def promote_standby(self) -> None:
        """The primary is gone for good."""
        self._primary.stop(signal.SIGQUIT)
        self._standby.promote()


@pytest.fixture
def servers_of_scene(own_postgres: PostgresServer) -> Iterator[tuple[Broker, Servers]]:
    with ExitStack() as stack:
        proxy = stack.enter_context(TcpProxy())
        kafka = stack.enter_context(ProxiedKafka(proxy))
        proxy.target = kafka.port
        yield Kafka(proxy), Servers(proxy, kafka, own_postgres, stack)


def played(
    place: tuple[Broker, Servers], faults: list[Fault], relays: int, env: dict[str, str], part: int
) -> tuple[Scene, Relays, Reader, Outbox]:
    """A part of the scene: some of the faults, with outages between them."""
    broker, servers = place
    outbox = servers.outbox(ordered=env.get("ORDERING") == "key")
    rng = random.Random(SEED)
    rng.shuffle(faults)
    faults = faults[part::PARTS]
    outages = ([servers.restart_broker], [servers.restart_database, servers.promote_standby], [servers.restart_broker])[
        part
    ]
    share = EVENTS // PARTS // (len(faults) + len(outages)) + 1
    with ExitStack() as stack:
        fleet = Relays(outbox, {**broker.env(), **env}, relays, stack)
        reader = stack.enter_context(Reader(broker))
        scene = Scene(outbox, broker, fleet, reader, share=share, rng=rng)
        for number, outage in enumerate((*outages, None)):
            scene.play(faults[number :: len(outages) + 1])
            if outage is not None:
                scene.through(outage.__name__, outage)
        scene.finish()
    return scene, fleet, reader, outbox


@pytest.mark.soak
@pytest.mark.parametrize(("relays", "ordering"), [(2, "key"), (4, "none")])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_reader_of_committed_messages_sees_each_event_once(
    servers_of_scene: tuple[Broker, Servers], measured: Measured, relays: int, ordering: str, part: int
) -> None:
    began = time.monotonic()
    faults = [Fault(how, moment) for how in How for moment in MOMENTS]
    scene, fleet, reader, outbox = played(
        servers_of_scene, faults, relays, {"KAFKA_TRANSACTIONS": "true", "ORDERING": ordering}, part
    )
    events = {event_id for (event_id,) in outbox.rows("event_id::text")}
    received = seen(servers_of_scene[0])
    measured(
        fault=f"all of them, part {part}, {relays} relays, ORDERING={ordering}",
        **{how.value: count for how, count in fleet.done.items()},
        missed=[f"{one.how.name} {one.moment}" for one in scene.missed],
        events=len(events),
        duplicates=received.total() - len(received),
        lost=len(events - received.keys()),
        longest_waits_s={label: round(seconds, 1) for label, seconds in reader.waits.items()},
        seconds=time.monotonic() - began,
    )
    assert received.keys() == reader.seen.keys() == events
    assert (received.total(), reader.seen.total()) == (len(events), len(events))
    assert fleet.done[How.KILL] >= KILLS / PARTS
    assert scene.missed == []


@pytest.mark.soak
def test_the_same_faults_without_transactions_bring_repeats(
    servers_of_scene: tuple[Broker, Servers], measured: Measured
) -> None:
    scene, fleet, *_ = played(servers_of_scene, [Fault(How.KILL, one) for one in moments_of(ALWAYS)] * PARTS, 2, {}, 0)
    received = seen(servers_of_scene[0])
    repeats = received.total() - len(received)
    measured(fault="the same without transactions", kills=fleet.done[How.KILL], events=scene.events, duplicates=repeats)
    assert len(received) == scene.events
    assert repeats > 0
