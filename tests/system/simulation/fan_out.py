"""Histories in which events go to two brokers each, with trouble at one of them, or at both.

The relay's part is the product's (``relay.routing``), over two scripted brokers. The judge holds each of them to what
is promised of it alone, and no row is DELIVERED before both have acknowledged it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from relay.core.event import LEASE_EXPIRED, EventId, Status
from relay.core.outcome import Acknowledged
from relay.core.ports import Publisher
from relay.engine.batch import SLOW
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.pace import TokenBucket
from relay.engine.destination.proving import several
from relay.engine.destination.several import NO_PACES
from relay.engine.engine_options import EngineOptions
from relay.outbox.outbox_options import KeyOrder
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from tests.support.doubles.memory_storage import MemoryRow
from tests.system.simulation import database_faults as database
from tests.system.simulation import faults as f
from tests.system.simulation.broker import Answer, Answered, Broker, Client
from tests.system.simulation.faults import Fault
from tests.system.simulation.ledger import REFUSED_FOR_GOOD, Ledger, Violation
from tests.system.simulation.plan import NewEvent, Plan, draw_basis
from tests.system.simulation.scheduler import Process
from tests.system.simulation.world import World

BOTH = ("x", "x.y")
"""The event types that go to both brokers; the others go to the first one."""
TYPE = read_template("{type}", "")
_ROUTES = Routes([Rule(1, "x*", TYPE, "main", (Target("audit", TYPE),))], default="main")
_DONE_AFTER = 180.0
"""Seconds after the last fault by which every event has come to its end: holds, backoffs and leases included."""
_FLOWS_WITHIN = 6.0
"""Seconds in which the first broker has an event, whatever is wrong with the second one."""
_KEPT_FOR = 1.0  # seconds of a place or bytes: those behind may wait for several such times, one after another
_ALONE_FOR = 2 * SLOW
"""Seconds that an event on its last attempt may cost those behind it where answers are slow: it waits until no other is
in flight, and they until it is settled, for a second each (``relay.engine.claim``). Several add up."""
_STEP = 0.5


@dataclass(slots=True)
class DestinationLedger(Ledger):
    """The account of one broker: it gets no event again whose acknowledgement its relay has heard."""

    heard: set[EventId] = field(default_factory=set)
    """Events of which a relay has heard the acknowledgement, unless it may have lost that since."""
    remembers: bool = True
    """Whether the table can hold it: else a destination may get an event again."""
    taken: set[EventId] = field(default_factory=set)
    """Events whose lease was taken from a relay that lives: what that one hears of them it cannot write."""

    def arrive(self, event_id: EventId, relay: str) -> None:
        if event_id in self.heard - self.taken and self.remembers:
            raise Violation(f"{event_id}: sent again by {relay} to a destination that has acknowledged it")
        # Not super(): the class that slots make is another one than this function knows.
        Ledger.arrive(self, event_id, relay)

    def is_settled(self, one: EventId) -> bool:
        """Whether nothing is left to do at this broker."""
        return self.acknowledged[one] > 0 or one in self.final


@dataclass(slots=True)
class FanOutLedger(DestinationLedger):
    """The account of the table, and of the first broker."""

    audit: DestinationLedger | None = None
    """That of the second one, which shares the blame, and what is known of leases."""
    leases_differ: bool = False
    """Whether relays take leases of others that live, since theirs are shorter."""

    def goes_to(self, event_type: str) -> list[DestinationLedger]:
        """The brokers of an event of this type."""
        return [self, self.audit] if event_type in BOTH and self.audit is not None else [self]

    def kind_of(self, row: MemoryRow) -> str:
        """What ``goes_to`` says the brokers of."""
        return row.event_type

    def change(self, before: MemoryRow, after: MemoryRow, actor: str, op: str) -> None:
        one = after.event_id
        if after.status is Status.DELIVERED and op == "settle":
            lacking = [each for each in self.goes_to(self.kind_of(after)) if not each.acknowledged[one]]
            if lacking:
                raise Violation(f"{one}: DELIVERED, and {len(lacking)} destinations have not acknowledged it")
        if op == "reap" and self.leases_differ:
            self.taken.add(one)
        Ledger.change(self, before, after, actor, op)

    def _failed(self, before: MemoryRow, after: MemoryRow) -> None:
        one, error = after.event_id, after.last_error or ""
        if after.attempts != before.attempts + 1 or not error:
            raise Violation(f"{one}: {before.attempts} -> {after.attempts} attempts, {error}")
        self.failed[one] += 1
        if self.failed[one] > self.blame[one]:
            raise Violation(f"{one}: lost an attempt that no failure of its own explains ({error})")
        early = after.status is Status.DEAD and after.attempts < self.retry.max_attempts
        if early and not all(each.is_settled(one) for each in self.goes_to(self.kind_of(after))):
            raise Violation(f"{one}: DEAD while a destination may still take it")
        if early and not error.startswith(REFUSED_FOR_GOOD):
            raise Violation(f"{one}: DEAD with attempts left ({error})")
        self._check_end(after, final=early)


class FanOutClient(Client):
    """A client that says which acknowledgements its relay has heard."""

    def hear(self, group: list[Answered]) -> None:
        ledger = self._broker.ledger
        if isinstance(ledger, DestinationLedger):
            held = (
                pending.event.event_id
                for pending, outcome in group
                if isinstance(outcome, Acknowledged) and self._holds(pending)
            )
            ledger.heard.update(held)
        super().hear(group)


class FanOutWorld(World):
    """A history with a second broker, ``audit``."""

    ledger_type = FanOutLedger
    client_type: type[Client] = FanOutClient
    routes = _ROUTES

    def _prepare(self) -> None:
        assert isinstance(self.ledger, FanOutLedger)
        ledger = self.ledger
        ledger.audit = DestinationLedger(ledger.clock, ledger.retry, ledger.database_time, lines=ledger.lines)
        ledger.audit.blame, ledger.audit.taken = ledger.blame, ledger.taken
        ledger.leases_differ = self.plan.leases_differ
        self.audit = Broker(self.scheduler, ledger.audit, self.rng)
        self.database.table.fan_out = ledger.remembers = ledger.audit.remembers = self.plan.remembers

    def _publisher(self, client: Client, options: EngineOptions) -> Publisher:
        second = self._second(client)
        times = Times(retry_interval=options.connect_retry_interval, probe_timeout=1.0)
        return several({"main": client, "audit": second}, self.routes, Drops(), times, self._paces(client.process))

    def _second(self, client: Client) -> Client:
        """The client of the second broker."""
        return FanOutClient(
            self.audit,
            client.process,
            timeout=self.plan.publish_timeout,
            capacity=client._capacity,
            keeps_runs=client.keeps_runs,
        )

    def _paces(self, _process: Process) -> Mapping[str, TokenBucket]:
        """The rates of those that have one, in one relay."""
        return NO_PACES

    def kill(self, name: str) -> None:
        """SIGKILL: what it has heard is lost with it."""
        super().kill(name)
        self.forget()

    def forget(self) -> None:
        """Events that are not settled may be sent again."""
        ledger = self.ledger
        assert isinstance(ledger, FanOutLedger)
        for each in ledger.goes_to(BOTH[0]):
            each.heard.intersection_update(ledger.done)

    def run(self) -> None:
        """Let it happen; raises Violation."""
        ledger = self.ledger
        assert isinstance(ledger, FanOutLedger)
        until, last = 0.0, self.plan.end + _DONE_AFTER
        while until < self.plan.end + 1.0 or (waiting := self._waiting(ledger)):
            until += _STEP
            self.scheduler.run(until)
            self._check_processes()
            if until > last:
                raise Violation(
                    f"{', '.join(waiting)}: neither DELIVERED nor DEAD {_DONE_AFTER:g} s after the last fault"
                )
        ledger.check_table(self.database.table.rows, self._deletes)
        self._check_flow(ledger)
        self._check_order(ledger)
        self._check_the_end()

    def _waiting(self, ledger: FanOutLedger) -> list[EventId]:
        """Events that have not come to their end, but for those that a dead event of their key holds."""
        rows = self.database.table.rows
        dead = [row for row in rows.values() if row.status is Status.DEAD and self.plan.key_order is KeyOrder.BLOCK]

        def is_held(row: MemoryRow) -> bool:
            return row.partition_key is not None and any(
                one.partition_key == row.partition_key and one.insertion_order < row.insertion_order for one in dead
            )

        return [one for one in ledger.inserted if one not in ledger.done and not is_held(rows[one])]

    def _check_flow(self, ledger: FanOutLedger) -> None:
        """What goes wrong with the second broker alone keeps no event from the first one."""
        if self.plan.key_order is not None or not self.plan.remembers:
            return
        faults = [fault.fault for fault in self.plan.faults if isinstance(fault, AtAudit)]
        if len(faults) < len(self.plan.faults):
            return
        events = [event for transaction in self.plan.transactions for event in transaction.events]
        # An event for both keeps its place and its bytes until the second one has answered, or its time is over.
        keepers = [
            event
            for event in events
            if event.destination in BOTH and any(self._waits(event.event_id, fault) for fault in faults)
        ]
        for options in (options for one in self.plan.relays for options in one.options):
            many = 2 * len(keepers) > options.max_in_flight
            if many or 2 * sum(event.size for event in keepers) > options.batch_bytes:
                return
        within = _FLOWS_WITHIN + _ALONE_FOR * sum(map(_travels_alone, events))
        for one, committed in ledger.inserted.items():
            arrived = ledger.arrivals[one][0][0]
            if arrived > committed + within:
                raise Violation(f"{one}: the first broker got it {arrived - committed:.3f} s after its commit")

    def _waits(self, one: EventId, fault: Fault) -> bool:
        """Whether the second broker may leave an event without an answer for long, before it counts as away."""
        if isinstance(fault, f.LateAnswers):
            return fault.seconds > _KEPT_FOR
        silent = isinstance(fault, f.BrokerSilent) or (
            isinstance(fault, f.Answered) and fault.answer in (Answer.SILENT, Answer.DROP) and one in fault.events
        )
        return silent and self.plan.publish_timeout > _KEPT_FOR

    def _check_order(self, ledger: FanOutLedger) -> None:
        """Order per key at each broker."""
        if self.plan.key_order is not None:
            for number, each in enumerate(ledger.goes_to(BOTH[0])):
                each.check_order(self.database.table.rows, f" at broker {number}")


def _travels_alone(event: NewEvent) -> bool:
    """Whether it may be what kills relays: one attempt is left to it after leases that expired."""
    return event.attempts > 0 and (event.last_error or "").startswith(LEASE_EXPIRED)


@dataclass(frozen=True, slots=True)
class AtAudit(Fault):
    """What goes wrong with the second broker."""

    fault: Fault

    @property
    def own(self) -> frozenset[EventId]:
        return self.fault.own

    def begin(self, world: World) -> None:
        _at_audit(world, self.fault.begin)

    def end(self, world: World) -> None:
        _at_audit(world, self.fault.end)


def _at_audit(world: World, work: Callable[[World], None]) -> None:
    assert isinstance(world, FanOutWorld)
    main, world.broker = world.broker, world.audit
    try:
        work(world)
    finally:
        world.broker = main


def draw_fan_out(seed: int) -> Plan:
    """The plan of one seed: the relays and events of other histories, and faults of its own."""
    basis = draw_basis(seed)
    rng = random.Random(f"fan-out {seed}")
    last_at = max(one.at for one in basis.transactions) + 2.0
    ids = [event.event_id for one in basis.transactions for event in one.events]
    names = [one.name for one in basis.relays]

    def span(longest: float) -> tuple[float, float]:
        at = rng.uniform(0.0, last_at)
        return round(at, 3), round(at + rng.uniform(0.05, longest), 3)

    def events() -> tuple[EventId, ...]:
        return tuple(sorted(rng.sample(ids, min(len(ids), rng.randint(1, 3)))))

    of_brokers: list[Callable[[], Fault]] = [
        lambda: f.BrokerAway(*span(20.0), ""),
        lambda: f.BrokerAway(*span(20.0), ""),
        lambda: f.BrokerSilent(*span(8.0), ""),
        lambda: f.SessionForgotten(*span(0.1), ""),
        lambda: f.LateAnswers(*span(10.0), round(basis.publish_timeout * rng.uniform(0.1, 0.8), 3)),
        lambda: f.OutOfOrder(*span(10.0)),
        lambda: f.AllRefused(*span(1.0)),
        *(lambda answer=answer: f.Answered(*span(10.0), events(), answer) for answer in _ANSWERS),
    ]
    of_others: list[Callable[[], Fault]] = [
        lambda: database.ReplyLost(*span(4.0), "", "settle", rng.randint(1, 3)),
        lambda: f.Stop(*span(4.0), rng.choice(names)),
        lambda: f.Kill(*span(4.0), rng.choice(names)),
    ]
    faults = [_at(rng.choice(of_brokers)()) for _ in range(rng.choice([1, 1, 2, 3]))]
    if rng.random() < 0.4:
        faults.append(rng.choice(of_brokers)())
    if rng.random() < 0.3:
        faults.append(rng.choice(of_others)())
    keeps_runs = basis.key_order is not None and rng.random() < 0.5
    faults.sort(key=lambda one: one.at)
    remembers = rng.random() < 0.8
    return replace(basis, faults=tuple(faults), keeps_runs=keeps_runs, remembers=remembers, mode="safety")


_ANSWERS = (Answer.REFUSE, Answer.REFUSE, Answer.BURY, Answer.CUT, Answer.SILENT)


def _at(fault: Fault) -> Fault:
    return AtAudit(fault.at, fault.until, fault)
