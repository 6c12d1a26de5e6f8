"""Histories with exactly once: a broker with transactions and proofs, and relays that find what others have left.

The relay's part is the engine's (``relay.engine.expired_leases``, the leases of a batch). No event may be seen twice by
a reader of committed messages, none may be DELIVERED unseen, and none that was seen may end otherwise. In order per key
each is seen behind those before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from relay.core.event import EventId, Status
from relay.core.ports import Publisher
from relay.core.proofs import LeasedRow
from relay.engine.engine_options import EngineOptions
from relay.outbox.outbox_options import KeyOrder
from tests.support.doubles.asked_storage import AskedMemoryOutbox
from tests.support.doubles.memory_storage import MemoryRow
from tests.system.simulation import database_faults as database
from tests.system.simulation import faults as f
from tests.system.simulation.broker import Answer, Broker, Client
from tests.system.simulation.database import run
from tests.system.simulation.faults import FOR_GOOD, Fault
from tests.system.simulation.ledger import Hold, Ledger, Violation
from tests.system.simulation.pauses import PausingOutbox
from tests.system.simulation.payloads import payload
from tests.system.simulation.plan import DESTINATIONS, NewEvent, Plan, Transaction, draw_basis
from tests.system.simulation.storage import SimulatedStorage
from tests.system.simulation.transactional_broker import Entry, TransactionalBroker
from tests.system.simulation.transactional_client import TransactionalClient
from tests.system.simulation.world import World

_DONE_AFTER = 240.0
"""Seconds after the last fault by which every event has come to its end."""
_INNOCENT_AFTER = 60.0
"""Those by which innocent ones have, while something that lasts goes wrong."""
_STUCK = (database.RowsLocked, database.RowsRefused)
"""What keeps rows from an end for as long as it lasts."""
_STEP = 0.5
_LATE = 40
"""Events that are inserted shortly before a relay is ended."""


class _Memory(PausingOutbox, AskedMemoryOutbox):
    """The table, for who asks before it reaps."""


class AskedStorage(SimulatedStorage):
    """``relay.core.proofs.AskedStorage`` over the scripted database."""

    memory_type = _Memory
    _memory: _Memory

    async def expired(self, limit: int, excluded: Sequence[EventId] = (), *, first: bool) -> Any:
        return await self._housekeeping.run("expired", lambda: run(self._memory.expired(limit, excluded, first=first)))

    async def own_leases(self) -> Any:
        return await self._housekeeping.run("expired", lambda: run(self._memory.own_leases()))

    async def reap_exactly(
        self, rows: Sequence[LeasedRow], acknowledged: Mapping[EventId, str], *, former: bool = False
    ) -> Any:
        def work() -> Any:
            return run(self._memory.reap_exactly(rows, acknowledged, former=former))

        return await self._housekeeping.run("reap", work, size=len(rows))


class TransactionalLedger(Ledger):
    """The account, with what a reader of committed messages sees for ``arrivals``."""

    __slots__ = ()

    def arrive(self, event_id: EventId, relay: str) -> None:
        if event_id in self.arrivals:
            raise Violation(f"{event_id}: seen twice, the second one from {relay}")
        self.say(f"{event_id} of {relay} is committed")
        Ledger.arrive(self, event_id, relay)

    def change(self, before: MemoryRow, after: MemoryRow, actor: str, op: str) -> None:
        holder = self.holder.get(after.event_id)
        if op == "settle" and after.status is Status.DELIVERED and holder is not None:
            holder.relay = actor  # a finder settles for the holder
        super().change(before, after, actor, op)


@dataclass(frozen=True, slots=True)
class Stranger(Fault):
    """Somebody has a transaction open in the topic of proofs: readers of committed messages stop before it."""

    def begin(self, world: World) -> None:
        assert isinstance(world, TransactionalWorld)
        world.broker.proofs.append(entry := Entry({}))
        world.strangers[self.at] = entry

    def end(self, world: World) -> None:
        assert isinstance(world, TransactionalWorld)
        world.strangers[self.at].state = "aborted"


@dataclass(frozen=True, slots=True)
class Busy(Fault):
    """Threads of relays are busy: what was begun is sent later."""

    share: float = 0.5

    def begin(self, world: World) -> None:
        assert isinstance(world, TransactionalWorld)
        world.broker.busy = self.share

    def end(self, world: World) -> None:
        assert isinstance(world, TransactionalWorld)
        world.broker.busy = 0.0


@dataclass(frozen=True, slots=True)
class Forgotten(f.OneRelay):
    """The lease of a claim whose reply the relay never got has run out: its transactional ids are ended."""

    def begin(self, world: World) -> None:
        world.database.set_clock()
        table, ledger = world.database.table, world.ledger
        now = table.tick()
        row = MemoryRow(EventId("forgotten"), "x", payload(2), now, now, now)
        row.insertion_order = table.inserted = table.inserted + 1
        row.status, row.locked_by = Status.DELIVERING, self.name
        row.locked_at = now - timedelta(seconds=world.plan.lease + 0.001)
        table.rows[row.event_id] = row
        ledger.commit(row)
        ledger.holder[row.event_id] = Hold(world.current(self.name).process.name, ledger.clock())
        ledger.states[row.event_id] = row.status


class TransactionalWorld(World):
    """A history whose relays all publish in transactions."""

    ledger_type: type[Ledger] = TransactionalLedger
    client_type: type[Client] = TransactionalClient
    broker_type: type[Broker] = TransactionalBroker
    storage_type = AskedStorage
    broker: TransactionalBroker

    def _prepare(self) -> None:
        self.strangers: dict[float, Entry] = {}

    def _publisher(self, client: Client, options: EngineOptions) -> Publisher:
        assert isinstance(client, TransactionalClient)
        client.lease = options.lease_timeout
        return client

    def run(self) -> None:
        """Let it happen; raises Violation."""
        ledger, plan, until = self.ledger, self.plan, 0.0
        own = plan.held_up
        stuck = plan.with_keys(frozenset().union(*(one.own for one in plan.lasting if isinstance(one, _STUCK))))
        while until < plan.end + 1.0 or ledger.inserted.keys() - ledger.done.keys() - stuck:
            until += _STEP
            self.scheduler.run(until)
            self._check_processes()
            late = set(ledger.inserted if until > plan.end + _DONE_AFTER else ()) - stuck
            if plan.mode == "liveness" and until > plan.end + _INNOCENT_AFTER:
                late |= ledger.inserted.keys() - own
            if late := late - ledger.done.keys():
                raise Violation(f"{sorted(late)}: neither DELIVERED nor DEAD")
        ledger.check_table(self.database.table.rows, self._deletes)
        for one in ledger.arrivals.keys() - stuck:
            self._check_seen(one)
        self._check_in_order()

    def _check_in_order(self) -> None:
        if self.plan.key_order is not None:
            self.ledger.check_order(self.database.table.rows)

    def _check_seen(self, one: EventId) -> None:
        """What became of an event that a reader has seen."""
        if self.ledger.states[one] is not Status.DELIVERED:
            raise Violation(f"{one}: a reader has seen it, and it is {self.ledger.states[one]}")


def draw_transactions(seed: int) -> Plan:
    """The plan of one seed: the relays and events of other histories, each relay by its own id; faults of its own."""
    basis = draw_basis(seed)
    rng = random.Random(f"transactions {seed}")
    ids = [event.event_id for one in basis.transactions for event in one.events]
    names = [one.name for one in basis.relays]

    def span(longest: float) -> tuple[float, float]:
        at = rng.choice(basis.transactions).at + rng.uniform(0.0, basis.lease / 4)
        return round(at, 3), round(at + rng.uniform(0.05, longest), 3)

    def name() -> str:
        return rng.choice((*names, ""))

    def events() -> tuple[EventId, ...]:
        return tuple(sorted(rng.sample(ids, min(len(ids), rng.randint(1, 3)))))

    drawn: list[Callable[[], Fault]] = [
        *(2 * [lambda: f.Kill(*span(4.0), rng.choice(names))]),
        *(2 * [lambda: f.Freeze(*span(basis.lease * 2.5), rng.choice(names))]),
        lambda: f.Stop(*span(4.0), rng.choice(names)),
        lambda: f.BrokerAway(*span(8.0), name()),
        lambda: f.BrokerSilent(*span(8.0), name()),
        lambda: f.LateAnswers(*span(10.0), round(basis.lease * rng.uniform(0.01, 0.25), 3)),
        lambda: f.Answered(*span(10.0), events(), rng.choice([Answer.REFUSE, Answer.BURY, Answer.DROP])),
        lambda: database.ReplyLost(*span(4.0), name(), rng.choice(["claim", "settle", "renew", "reap"]), 2),
        lambda: database.DatabaseSilent(*span(8.0), name()),
        lambda: database.DatabaseAway(*span(8.0), name()),
    ]
    always: list[Fault] = [
        f.LateAnswers(0.0, 20.0, round(basis.lease * rng.uniform(0.01, 0.1), 3)),
        Busy(0.0, 20.0),
        Stranger(0.0, round(rng.uniform(1.0, 30.0), 3)),
    ]
    always = rng.sample(always, rng.choice([0, 1, 2]))
    faults = sorted((*always, *(rng.choice(drawn)() for _ in range(rng.choice([2, 3, 4, 6])))), key=lambda one: one.at)
    plan = replace(basis, faults=_one_at_a_time(faults), mode="safety")
    rng = random.Random(f"forgotten {seed}")
    plan = _with_forgotten_claim(plan, rng) if len(names) > 1 and rng.random() < 0.2 else plan
    return _in_some_order(_with_lasting(plan, random.Random(f"lasting {seed}")))


def _with_lasting(plan: Plan, rng: random.Random) -> Plan:
    """Often something goes wrong for good, and may cost nothing but its own events and relays."""
    if rng.random() >= 0.4:
        return plan
    events = [event for one in plan.transactions for event in one.events]
    ids = [event.event_id for event in events]
    few = tuple(sorted(rng.sample(ids, min(len(ids), rng.randint(1, 3)))))
    destination = rng.choice(DESTINATIONS)
    all_of_one = tuple(event.event_id for event in events if event.destination == destination)
    at = rng.choice([0.0, round(rng.uniform(0.0, plan.end), 3)])
    answer = rng.choice([Answer.REFUSE, Answer.BURY, Answer.DROP])
    lasting: list[Fault] = [
        f.Answered(at, FOR_GOOD, few, answer),
        f.Answered(at, FOR_GOOD, all_of_one, answer),
        database.RowsLocked(at, FOR_GOOD, few),
        database.RowsRefused(at, FOR_GOOD, few, (Status.DELIVERED,)),
    ]
    if spare := [one.name for one in plan.relays[1:]]:
        lasting += [one(at, FOR_GOOD, rng.choice(spare)) for one in (f.Kill, f.Freeze)]
    faults = sorted((rng.choice(lasting), *plan.faults), key=lambda one: one.at)
    return replace(plan, faults=_one_at_a_time(faults), mode="liveness")


def _with_forgotten_claim(plan: Plan, rng: random.Random) -> Plan:
    """A relay sleeps while it is ended for a claim that it has forgotten, and wakes with batches of before that.

    It makes new producers, and is frozen again while it offers those batches.
    """
    lease, name = plan.lease, rng.choice(plan.relays).name
    claimed = lease * rng.uniform(0.5, 1.0)
    asleep = claimed + lease * rng.uniform(0.03, 0.08)
    at = claimed + lease * rng.uniform(0.1, 0.2)
    woken = at + lease * rng.uniform(0.05, 0.18)
    again = woken + lease * rng.uniform(0.01, 0.2)
    faults = (
        Busy(claimed, again, 0.9),
        f.Freeze(asleep, woken, name),
        Forgotten(at, at, name),
        f.Freeze(again, again + lease * rng.uniform(0.8, 1.6), name),
    )
    events = tuple(NewEvent(EventId(f"late{number}"), rng.choice(DESTINATIONS), None, 2) for number in range(_LATE))
    transactions = (*plan.transactions, Transaction(claimed, 0.0, False, events))
    return replace(
        plan,
        faults=tuple(sorted(faults, key=lambda one: one.at)),
        transactions=tuple(sorted(transactions, key=lambda one: one.at)),
        relays=tuple(replace(one, options=tuple(map(_polls_often, one.options))) for one in plan.relays),
    )


def _polls_often(options: EngineOptions) -> EngineOptions:
    return replace(options, poll_interval=0.1)


def _in_some_order(plan: Plan) -> Plan:
    """Each relay by its own id; order per key where the basis has some, often with runs."""
    relays = tuple(replace(one, relay_id=one.name) for one in plan.relays)
    key_order = None if plan.key_order is None else KeyOrder.SKIP
    keeps_runs = key_order is not None and random.Random(f"runs {plan.seed}").random() < 0.7
    return replace(plan, key_order=key_order, keeps_runs=keeps_runs, relays=relays)


def _one_at_a_time(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """A relay is killed, frozen or stopped by one fault at a time."""
    taken: dict[str, float] = {}
    chosen = []
    for one in faults:
        if isinstance(one, f.Kill | f.Freeze | f.Stop):
            if one.at <= taken.get(one.name, -1.0):
                continue
            taken[one.name] = one.until + 6.0
        chosen.append(one)
    return tuple(chosen)
