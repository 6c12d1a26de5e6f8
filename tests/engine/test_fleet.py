"""A relay beside the list of its table's relays: how often it writes, and that no delivery waits for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import pytest

from relay.core.errors import ConfigError, RowRefused, StorageUnavailable
from relay.core.event import EventId
from relay.core.heartbeats import HEARTBEAT, LIVING
from relay.core.optional_parts import Heartbeat
from relay.core.outcome import Away
from relay.engine.context import EngineContext
from relay.engine.fleet import FleetWatch
from relay.engine.pauses import PauseWatch
from tests.engine.test_expired_leases import MemoryProofs
from tests.support.doubles.asked_storage import AskedMemoryOutbox
from tests.support.doubles.memory_storage import MemoryTable
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.options import engine_options
from tests.support.virtual_time import VirtualTimeLoop


class Watched:
    """A list that counts the calls; ``failing`` names those that fail, ``hanging`` those that never end."""

    def __init__(self, *, failing: Sequence[str] = (), hanging: Sequence[str] = ()) -> None:
        self.failing = failing
        self.hanging = hanging
        self.calls: list[tuple[str, float]] = []
        self.without_proofs: Sequence[str] | None = ()
        self.latest: Heartbeat | None = None

    async def join(self) -> None:
        await self._called("join")

    async def beat(self, heartbeat: Heartbeat) -> Sequence[str]:
        assert heartbeat.in_flight >= 0
        self.latest = heartbeat
        await self._called("beat")
        return ()

    async def leave(self) -> None:
        await self._called("leave")

    async def _called(self, name: str) -> None:
        self.calls.append((name, asyncio.get_running_loop().time()))
        if name in self.failing:
            raise StorageUnavailable(f"{name}: the list is away")
        if name in self.hanging:
            await asyncio.get_running_loop().create_future()


class Refusing(Watched):
    """A list with a relay that delivers elsewhere."""

    async def join(self) -> None:
        raise ConfigError("another relay delivers elsewhere")


class Transactional(MemoryProofs):
    """Remembers which relays it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = False
        self.others: list[Sequence[str] | None] = []

    def beside(self, relays: Sequence[str] | None) -> None:
        if self.others[-1:] != [relays]:
            self.others.append(relays)


StartBeside = Callable[[Watched], VirtualRelay]


@pytest.fixture
def beside() -> Iterator[StartBeside]:
    """Start a relay beside a list."""
    relays: list[VirtualRelay] = []

    def start(fleet: Watched) -> VirtualRelay:
        relays.append(VirtualRelay(fleet=fleet))
        return relays[-1]

    yield start
    for relay in relays:
        relay.end()


def test_a_relay_joins_before_it_claims_and_writes_at_most_once_in_five_seconds(
    beside: StartBeside,
) -> None:
    fleet = Watched()
    relay = beside(fleet)
    relay.insert(3)
    relay.run(61.0)
    assert relay.counts() == {"DELIVERED": 3}
    assert fleet.calls[0][0] == "join"
    beats = [time for name, time in fleet.calls if name == "beat"]
    assert 11 <= len(beats) <= 13
    assert all(later - earlier >= HEARTBEAT for earlier, later in pairwise(beats))


@pytest.mark.parametrize(("blocked", "state"), [(True, "active"), (False, "paused")])
def test_a_heartbeat_says_what_a_destination_is_like_and_since_when(
    beside: StartBeside, blocked: bool, state: str
) -> None:
    fleet = Watched()
    relay = beside(fleet)
    if blocked:
        relay.broker.hold()
        relay.broker.blocked = "low on memory"
    else:
        relay.broker.down("low on memory")
    relay.insert(3)
    relay.run(20.0)
    assert fleet.latest is not None
    word = "blocked" if blocked else "away"
    assert re.fullmatch(rf"destination memory is {word} since \S+Z: low on memory", fleet.latest.reason)
    assert fleet.latest.state == state


def test_a_heartbeat_names_the_rows_that_the_database_refuses(beside: StartBeside) -> None:
    fleet = Watched()
    relay = beside(fleet)
    relay.run(1.0)
    relay.relay.refused_rows.name("claim", EventId("7"), RowRefused("no: check"), relay.seconds() + 60)
    relay.run(6.0)
    assert fleet.latest is not None
    assert (fleet.latest.state, fleet.latest.reason) == (
        "active",
        "the database refuses to claim event 7: no: check",
    )


def test_a_heartbeat_names_the_types_that_are_left_out_of_claims(beside: StartBeside) -> None:
    fleet = Watched()
    relay = beside(fleet)
    relay.run(1.0)
    relay.relay.away.report("order.paid", Away("shard 2 is away"))
    relay.run(6.0)
    assert fleet.latest is not None
    assert (fleet.latest.state, fleet.latest.reason) == (
        "active",
        "no answer for event types order.paid (shard 2 is away)",
    )


@pytest.mark.parametrize(
    "fleet",
    [Watched(hanging=("beat", "leave")), Watched(failing=("join", "beat", "leave"))],
    ids=["hangs", "fails"],
)
def test_no_delivery_and_no_stop_waits_for_the_list(beside: StartBeside, fleet: Watched) -> None:
    relay = beside(fleet)
    relay.run(15.0)  # a relay tries to join for ten
    relay.insert(3)
    assert relay.until(lambda: relay.delivered() == 3) < 1.0
    relay.do(relay.relay.stop)
    relay.until(relay.task.done, relay.options.shutdown_timeout + 1.0)


@contextmanager
def watched(fleet: Watched) -> Iterator[tuple[VirtualTimeLoop, Transactional]]:
    """The watch over a list, of a relay that publishes in transactions."""
    loop, broker = VirtualTimeLoop(), Transactional()
    storage = AskedMemoryOutbox(MemoryTable(), "relay", 30.0)
    context = EngineContext(storage, broker, MemoryTelemetry(), engine_options(), loop.time)
    watch = FleetWatch(context, fleet, PauseWatch(context, None, lambda: None), lambda: (0, 0), dict)

    async def live() -> None:
        await watch.join()
        await watch.run()

    task = loop.create_task(live())
    yield loop, broker
    assert not task.done()
    loop.end()


def test_a_list_that_cannot_be_read_does_not_say_that_no_other_relay_lives() -> None:
    fleet = Watched(failing=("join",))
    with watched(fleet) as (loop, broker):
        loop.pass_time(15.0)
        assert broker.others == [None, ()]
        fleet.failing = ("beat",)
        loop.pass_time(LIVING - 5.0)
        assert broker.others == [None, ()]
        loop.pass_time(10.0)
        assert broker.others == [None, (), None]


def test_relays_without_proofs_count_while_the_list_cannot_be_read() -> None:
    fleet = Watched()
    fleet.without_proofs = ["older"]
    with watched(fleet) as (loop, broker):
        loop.pass_time(6.0)
        fleet.failing = ("beat",)
        loop.pass_time(2 * LIVING)
        assert broker.others == [["older"]]


def test_a_relay_that_is_refused_claims_nothing_and_ends_with_the_reason() -> None:
    relay = VirtualRelay(fleet=Refusing())
    relay.insert(3)
    relay.run(5.0)
    assert relay.counts() == {"PENDING": 3}
    assert isinstance(relay.task.exception(), ConfigError)
    relay.loop.end()
