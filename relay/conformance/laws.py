"""The two laws of destinations (docs/design/guarantees.md), as tests of a whole relay on a PostgreSQL of the suite.

Law 1: a destination that stays in trouble holds up no other one. Law 2: while probes are answered, no event is released
twice without an attempt in between. ``suite`` hands the cases on; the fixture ``law_outbox`` is the database.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from openoutbox import NewEvent, enqueue_async
from relay.app import build
from relay.conformance.harness import TROUBLES, Harness, make_event
from relay.conformance.waiting import eventually, patience, wait_until_async
from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Acknowledged, OutcomeSink, Resolution
from relay.core.ports import Publisher
from relay.core.storage import Settled, Settlement
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.several import SeveralPublishers
from relay.engine.relay import Relay
from relay.localservers.postgres import PostgresServer
from relay.outbox.extensions import add_extension
from relay.outbox.migrate import migrate
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from relay.settings.settings import Settings
from relay.telemetry.measurements import Measurements

BOUND = 2.0  # seconds, of which 99 of 100 events of the others take less
TURNS = 10  # of inserting, 0.1 s each
BACKLOG = 300  # events of the destination in trouble that wait already: more than may be in flight
MARK = secrets.token_hex(32).encode()  # of an event that the broker cuts connections on; no client encodes it
_TYPE = read_template("{type}", "")


@pytest.fixture(scope="session")
def law_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that has a template of the outbox: it knows routes to several and order per key."""
    with PostgresServer() as server:
        outbox = _create_database(server, "outbox", "template1")
        migrate(outbox, TableName())
        for extension in ("key-order", "fan-out"):
            add_extension(outbox, TableName(), extension)
        yield server


def _create_database(server: PostgresServer, name: str, template: str) -> str:
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(template)))
    return server.database_url(name)


@pytest.fixture
def law_outbox(law_server: PostgresServer) -> str:
    """The URL of a database with an empty outbox of the test's own."""
    return _create_database(law_server, f"law_{secrets.token_hex(8)}", "outbox")


@pytest.fixture
def possible(harness: Harness, trouble: str) -> None:
    """Skips what this harness cannot make, before a database is made for it."""
    if trouble not in harness.troubles:
        pytest.skip(f"this harness has no way to make it: {trouble}")


@pytest.fixture
def possible_of_a_part(harness: Harness, trouble: str) -> None:
    """Likewise."""
    if trouble not in harness.part_troubles:
        pytest.skip(f"this harness has no way to make it of one destination: {trouble}")


class CountingOutbox(PostgresOutbox):
    """Counts how often each event was released since its last attempt."""

    def __init__(self, url: str, ordering: str) -> None:
        self.url = url
        variables = {"STORAGE_URL": url, "ORDERING": ordering, "BATCH_SIZE": "25", "MAX_IN_FLIGHT": "200"}
        variables |= {"PUBLISHER_CONNECT_RETRY_INTERVAL": "1s", "POLL_INTERVAL": "100ms", "SHUTDOWN_TIMEOUT": "1s"}
        self.settings = Settings.from_env(variables)
        retry = RetryPolicy(max_attempts=2, base_delay=0.1, max_delay=0.1, jitter=0.0)
        self.engine = replace(build.engine_options(self.settings), retry=retry)
        self.releases: Counter[EventId] = Counter()
        self.most_releases = 0
        super().__init__(replace(build.storage_options(self.settings, fan_out=ordering == "none"), retry=retry))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Write verdicts, and count."""
        for one in settlements:
            self.releases.update(one.released)
            for event_id, *_ in one.retried:
                del self.releases[event_id]
        self.most_releases = max([self.most_releases, *self.releases.values()])
        return await super().settle(settlements)


@asynccontextmanager
async def running(outbox: CountingOutbox, publisher: Publisher) -> AsyncIterator[Relay]:
    """A relay, until the end."""
    relay = Relay(outbox, publisher, Measurements(), outbox.engine)
    task = asyncio.create_task(relay.run())
    try:
        yield relay
    finally:
        relay.stop()
        await task


def watch(publisher: Publisher, heard: dict[str, float]) -> Publisher:
    """Write down when the publisher first has an acknowledgement of each event."""
    offer = publisher.publish

    def hear(sink: OutcomeSink, resolutions: Sequence[Resolution]) -> None:
        for event, outcome in resolutions:
            if isinstance(outcome, Acknowledged):
                heard.setdefault(event.event_id, time.monotonic())
        sink(resolutions)

    async def publish(events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        await offer(events, partial(hear, sink))

    publisher.publish = publish  # type: ignore[method-assign]
    return publisher


async def insert(url: str, events: Sequence[NewEvent]) -> dict[str, float]:
    """Insert events; when each was there."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await enqueue_async(connection, events)
    return dict.fromkeys((str(event.event_id) for event in events), time.monotonic())


async def check_flow(
    outbox: CountingOutbox,
    publisher: Publisher,
    heard: dict[str, float],
    bad: str,
    good: str,
    both: str = "",
    *,
    said: bool = False,
) -> None:
    """Insert events for one in trouble, another one and, with a name for them, both: the other has its own in time.

    ``said``: the one in trouble is a part of the publisher, of which the relay says so.
    """
    numbers = count()

    def new(name: str, events: int) -> list[NewEvent]:
        return [NewEvent(name, b"{}", partition_key=f"{name} {next(numbers) % 50}") for _ in range(events)]

    def title() -> str:
        return f"destination {publisher.name}/{publisher.destination_of(make_event(bad))}"

    async with running(outbox, publisher) as relay:
        await insert(outbox.url, new(bad, BACKLOG))
        first = await insert(outbox.url, new(good, 1))
        await eventually(lambda: heard.keys() >= first.keys(), what="the first event of the other")
        inserted: dict[str, float] = {}
        for _ in range(TURNS):
            await insert(outbox.url, new(bad, 5))
            inserted |= await insert(outbox.url, [*new(good, 5), *(new(both, 1) if both else [])])
            await asyncio.sleep(0.1)
        await eventually(lambda: heard.keys() >= inserted.keys(), what="all events of the other")
        if said:
            await eventually(lambda: title() in relay.troubles(), what="the relay to say so")
    waits = sorted(heard[event_id] - since for event_id, since in inserted.items())
    assert waits[len(waits) * 99 // 100] < patience(BOUND), waits[-10:]


@pytest.mark.usefixtures("possible")
@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_destination_in_trouble_holds_up_no_other(
    harness: Harness, law_outbox: str, trouble: str, ordering: str
) -> None:
    bad, good, both = [await harness.destination() for _ in range(3)]
    rules = [Rule(1, bad, _TYPE, "troubled"), Rule(2, both, _TYPE, "other", (Target("troubled", _TYPE),))]
    heard: dict[str, float] = {}
    with harness.trouble(trouble) as (troubled, other):
        publishers = {"troubled": troubled, "other": watch(other, heard)}
        outbox = CountingOutbox(law_outbox, ordering)
        times = Times(retry_interval=1.0)
        publisher = SeveralPublishers(publishers, Routes(rules, default="other"), Drops(), times)
        await check_flow(outbox, publisher, heard, bad, good, both if ordering == "none" else "")


@pytest.mark.usefixtures("possible_of_a_part")
@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_part_in_trouble_holds_up_no_other_of_its_publisher(
    harness: Harness, law_outbox: str, trouble: str, ordering: str
) -> None:
    bad, good = [await harness.destination() for _ in range(2)]
    heard: dict[str, float] = {}
    with harness.part_trouble(trouble, bad) as publisher:
        outbox, said = CountingOutbox(law_outbox, ordering), trouble != "slow"
        await check_flow(outbox, watch(publisher, heard), heard, bad, good, said=said)


async def test_no_event_is_released_twice_without_an_attempt_while_probes_are_answered(
    harness: Harness, law_outbox: str
) -> None:
    good = await harness.destination()
    names = [
        *(["missing"] if harness.features.missing_destination else []),
        *filter(None, harness.features.invalid_names),
    ]
    poison = [NewEvent(name, b"{}") for name in names]
    if harness.features.too_large:
        poison.append(NewEvent(good, os.urandom(harness.features.too_large)))
    outbox = CountingOutbox(law_outbox, "none")
    with harness.cutting(MARK) as publisher:
        poison += [NewEvent(good, MARK)] if harness.cuts else []
        async with running(outbox, publisher) as relay:
            await insert(law_outbox, [*poison, *(NewEvent(good, b"{}") for _ in range(30))])

            async def finished() -> bool:
                backlog = await outbox.backlog()
                # An event that is about to be tried again may be in neither number: the dead are counted, too.
                unfinished = backlog.pending_new + backlog.pending_retrying + relay.inflight.events
                return not unfinished and backlog.dead == len(poison)

            await wait_until_async(finished, what="every event to be delivered or dead")
    assert outbox.most_releases <= 1
