"""A history as data, drawn from one seed: the relays and their settings, the events, and what goes wrong.

In *safety* faults come and go. In *liveness* some of them last for good, of kinds that must cost nothing but their own
events and relays: everything else must flow on. In *standstill* one lasts that stops everything: it must be reported.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, Status
from relay.engine.engine_options import EngineOptions
from relay.outbox.outbox_options import KeyOrder
from tests.support.options import engine_options
from tests.system.simulation import database_faults as database
from tests.system.simulation import faults as f
from tests.system.simulation.broker import Answer
from tests.system.simulation.faults import FOR_GOOD, Fault

_DEFAULTS = engine_options()
LARGEST = 1500
"""Bytes of the largest payload."""
STANDSTILL = "standstill"
DESTINATIONS = ("x", "x.y", "z")
"""Event types; two have a prefix in common."""
_OPS = ("claim", "settle", "renew", "reap")


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to insert."""

    event_id: EventId
    destination: str
    key: str | None
    size: int
    attempts: int = 0
    last_error: str | None = None
    event_type: str = ""
    """Where a header says its destination."""
    headers: str = "{}"


@dataclass(frozen=True, slots=True)
class Transaction:
    """Events inserted together: begun at ``at``, committed ``late`` seconds later, or rolled back."""

    at: float
    late: float
    rolled_back: bool
    events: tuple[NewEvent, ...]


@dataclass(frozen=True, slots=True)
class RelayPlan:
    """One relay of the fleet, and the settings of its incarnations in turn."""

    name: str
    relay_id: str
    options: tuple[EngineOptions, ...]
    deadline: float
    """Of its statements, seconds."""
    capacity: int
    """Unanswered messages that its client holds."""
    delete_delivered: bool = False
    """ON_DELIVERED=delete."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All of one history."""

    seed: int
    mode: str
    key_order: KeyOrder | None
    publish_timeout: float
    lease: float
    """The longest LEASE_TIMEOUT of the fleet."""
    retry: RetryPolicy
    relays: tuple[RelayPlan, ...]
    transactions: tuple[Transaction, ...]
    faults: tuple[Fault, ...]
    watched_until: float = 0.0
    """How long a standstill must be watched."""
    keeps_runs: bool = False
    has_head: bool = False
    """Claims begin at a head also where nothing is left out of them."""
    """Whether several events of a key may be with the broker, in order per key."""
    remembers: bool = True
    """Whether the table has the column of the extension fan-out."""
    rate: float | None = None
    """Of the second broker in each relay, where there are two: events a second."""

    def without(self, one: Fault | Transaction) -> Plan:
        """The same without one thing, to see whether it matters."""
        return replace(
            self,
            faults=tuple(fault for fault in self.faults if fault is not one),
            transactions=tuple(transaction for transaction in self.transactions if transaction is not one),
        )

    @property
    def pauses(self) -> tuple[database.Paused, ...]:
        """What operators pause."""
        return tuple(fault for fault in self.faults if isinstance(fault, database.Paused))

    @property
    def away(self) -> tuple[f.DestinationAway, ...]:
        """Destinations that do not answer while others do."""
        return tuple(fault for fault in self.faults if isinstance(fault, f.DestinationAway))

    @property
    def lasting(self) -> tuple[Fault, ...]:
        """What goes wrong for good; a pause is nothing that goes wrong."""
        return tuple(
            fault for fault in self.faults if fault.until == FOR_GOOD and not isinstance(fault, database.Paused)
        )

    @property
    def own(self) -> frozenset[EventId]:
        """Events that some fault may hold up."""
        return frozenset().union(*(fault.own for fault in self.faults))

    @property
    def held_up(self) -> frozenset[EventId]:
        """Those, and what they hold up."""
        return self.with_keys(self.own)

    def with_keys(self, ids: frozenset[EventId]) -> frozenset[EventId]:
        """These and, in order per key, the events of their keys."""
        if self.key_order is None:
            return ids
        events = [event for one in self.transactions for event in one.events]
        keys = {event.key for event in events if event.event_id in ids and event.key is not None}
        return ids | {event.event_id for event in events if event.key in keys}

    @property
    def leases_differ(self) -> bool:
        """Whether relays have another LEASE_TIMEOUT than others, whose live leases they may take."""
        return len({options.lease_timeout for one in self.relays for options in one.options}) > 1

    @property
    def end(self) -> float:
        """When everything that ends has ended, and a standstill has been watched."""
        ends = [fault.until if fault.until < FOR_GOOD else fault.at for fault in self.faults]
        return max([self.watched_until, *ends, *(one.at + one.late for one in self.transactions)], default=0.0)


@dataclass(slots=True)
class _Drawing:
    """What is known while a plan is drawn."""

    rng: random.Random
    liveness: bool
    names: tuple[str, ...]
    spare: tuple[str, ...]
    """Relays that may be lost for good: one other is always left."""
    ids: tuple[EventId, ...]
    scarred: tuple[EventId, ...]
    """Events with one attempt left."""
    destinations: dict[str, tuple[EventId, ...]]
    last_at: float
    lease: float
    publish_timeout: float
    later_lease: float
    """LEASE_TIMEOUT of relays that start later: a rolling change of the variable."""

    def when(self) -> float:
        return round(self.rng.uniform(0.2, self.last_at), 3)

    def span(self, longest: float) -> tuple[float, float]:
        at = self.when()
        return at, round(at + self.rng.uniform(0.05, longest), 3)

    def name(self) -> str:
        return self.rng.choice((*self.names, ""))

    def destination(self) -> tuple[str, tuple[EventId, ...]]:
        name = self.rng.choice(DESTINATIONS)
        return name, self.destinations[name]

    def events(self, most: int = 3) -> tuple[EventId, ...]:
        return tuple(sorted(self.rng.sample(self.ids, min(len(self.ids), self.rng.randint(1, most)))))


def draw_basis(seed: int) -> Plan:
    """The plan of one seed, before ``tests.system.simulation.draw`` adds to it."""
    rng = random.Random(seed)
    liveness = rng.random() < 0.5
    key_order = rng.choice([KeyOrder.SKIP, KeyOrder.BLOCK]) if rng.random() < 0.25 else None
    lease = rng.choice([4.0, 6.0, 10.0, 16.0])
    retry = RetryPolicy(rng.randint(2, 5), rng.choice([0.3, 1.0]), rng.choice([2.0, 5.0]), 0.1)
    publish_timeout = rng.choice([2.0, 4.0, 18.0])
    names = ("a", "b", "c")[: rng.choice([1, 1, 2, 2, 2, 3])]
    last_at = rng.uniform(3.0, 12.0)
    transactions = _transactions(rng, last_at, in_order=key_order is not None, retry=retry)
    ids = tuple(event.event_id for one in transactions for event in one.events)
    events = [event for one in transactions for event in one.events]
    scarred = tuple(event.event_id for event in events if event.attempts)
    destinations = {
        name: tuple(event.event_id for event in events if event.destination == name) for name in DESTINATIONS
    }
    later_lease = rng.choice([4.0, 16.0]) if not liveness and rng.random() < 0.1 else lease
    drawing = _Drawing(
        rng, liveness, names, names[1:], ids, scarred, destinations, last_at, lease, publish_timeout, later_lease
    )
    twins = rng.random() < 0.3
    relays = tuple(_relay(drawing, name, "twin" if twins else name, retry, key_order) for name in names)
    drawn = _faults(drawing)
    mode = "liveness" if liveness else "safety"
    longest = max(lease, later_lease)
    return Plan(seed, mode, key_order, publish_timeout, longest, retry, relays, transactions, drawn)


def _relay(drawing: _Drawing, name: str, relay_id: str, retry: RetryPolicy, key_order: KeyOrder | None) -> RelayPlan:
    rng = drawing.rng

    def options(lease_timeout: float) -> EngineOptions:
        return replace(
            _DEFAULTS,
            batch_size=rng.choice([1, 3, 10, 50]),
            max_in_flight=rng.choice([8, 24, 100] if drawing.liveness else [4, 12, 100]),
            batch_bytes=rng.choice([2_000, 1 << 20, 1 << 20, 1 << 20] if drawing.liveness else [2_000, 1 << 20]),
            in_order=key_order is not None,
            poll_interval=rng.choice([1.0, 2.0]),
            lease_timeout=lease_timeout,
            reap_batch_size=rng.choice([2, 100]),
            health_check_interval=rng.choice([3.0, 6.0]),
            connect_retry_interval=rng.choice([0.5, 2.0]),
            shutdown_timeout=5.0,
            probe_timeout=1.0,
            sample_interval=8.0,
            retry=retry,
        )

    deadline = rng.choice([1.5, drawing.lease / 2])
    return RelayPlan(
        name,
        relay_id,
        (options(drawing.lease), options(drawing.later_lease)),
        deadline,
        1000 if drawing.liveness else rng.choice([3, 1000]),
    )


def _transactions(rng: random.Random, last_at: float, *, in_order: bool, retry: RetryPolicy) -> tuple[Transaction, ...]:
    transactions: list[Transaction] = []
    last_error = rng.choice(["LEASE_EXPIRED: lease of z expired", "LEADER: changed"])
    number = 0
    at = 0.0
    for _ in range(rng.randint(1, 5)):
        events: list[NewEvent] = []
        for _ in range(rng.choice([1, 2, 5, 12])):
            number += 1
            key = f"k{rng.randrange(3)}" if rng.random() < (0.8 if in_order else 0.3) else None
            size = rng.choice([2, 2, 2, 300, LARGEST])
            scarred = retry.max_attempts - 1 if rng.random() < 0.12 else 0
            error = last_error if scarred else None
            events.append(NewEvent(EventId(f"e{number}"), rng.choice(DESTINATIONS), key, size, scarred, error))
        # Writers of one key wait for one another, so an ordered outbox sees no late commit before an early one.
        late = 0.0 if in_order or rng.random() < 0.8 else rng.uniform(0.1, 3.0)
        transactions.append(Transaction(round(at, 3), round(late, 3), rng.random() < 0.05, tuple(events)))
        at = rng.uniform(0.0, last_at)
    return tuple(sorted(transactions, key=lambda one: one.at))


def _faults(drawing: _Drawing) -> tuple[Fault, ...]:
    rng = drawing.rng
    drawn: list[Fault] = []
    if drawing.liveness:
        for _ in range(rng.choice([1, 1, 2, 3])):
            one = rng.choice(_LASTING)(drawing)
            if one is not None:
                drawn.append(one)
        if rng.random() < 0.3:
            drawn += _pass(drawing, 1)
    else:
        drawn += _pass(drawing, rng.choice([1, 2, 3, 5]))
    return _compatible(sorted(drawn, key=lambda one: one.at))


def _pass(drawing: _Drawing, count: int) -> list[Fault]:
    return [one for one in (drawing.rng.choice(_PASSING)(drawing) for _ in range(count)) if one is not None]


def _compatible(drawn: list[Fault]) -> tuple[Fault, ...]:
    """A relay is killed, frozen or stopped by one fault at a time."""
    taken: dict[str, float] = {}
    chosen: list[Fault] = []
    for one in drawn:
        if isinstance(one, f.Kill | f.Freeze | f.Stop):
            if one.at <= taken.get(one.name, -1.0) + 8.0:
                continue
            taken[one.name] = one.until
        chosen.append(one)
    return tuple(chosen)


_STATES = [(Status.DELIVERING,), (Status.DELIVERED,), (Status.PENDING, Status.DEAD), (Status.DELIVERED, Status.DEAD)]
_OWN_ANSWERS = [Answer.SILENT, Answer.DROP, Answer.REFUSE, Answer.BURY, Answer.CUT]

Draw = Callable[[_Drawing], "Fault | None"]

_PASSING: list[Draw] = [
    lambda d: database.DatabaseAway(*d.span(8.0), d.name()),
    lambda d: database.DatabaseSilent(*d.span(8.0), d.name()),
    lambda d: database.DatabaseReadOnly(*d.span(6.0), d.name()),
    lambda d: database.DatabaseSlow(*d.span(6.0), d.name(), d.rng.choice([0.05, 0.5])),
    lambda d: database.ReplyLost(*d.span(4.0), d.name(), d.rng.choice(_OPS), d.rng.randint(1, 3)),
    lambda d: database.ReplyLost(*d.span(4.0), d.name(), "settle", d.rng.randint(1, 3)),
    lambda d: database.RequestLost(*d.span(4.0), d.name(), d.rng.choice(_OPS), d.rng.randint(1, 3)),
    lambda d: database.Busy(*d.span(6.0), d.name(), d.rng.choice(_OPS), d.rng.choice([0, 0, 4])),
    lambda d: database.TableLocked(*d.span(10.0)),
    lambda d: database.RowsLocked(*d.span(10.0), d.events()),
    lambda d: database.RowsRefused(*d.span(10.0), d.events(), d.rng.choice(_STATES)),
    lambda d: database.Replay(*d.span(0.1), d.events()),
    lambda d: database.ClockStep(*d.span(0.1), round(d.rng.uniform(-8.0, 8.0), 3)),
    lambda d: f.BrokerAway(*d.span(8.0), d.name()),
    lambda d: f.BrokerSilent(*d.span(8.0), d.name()),
    lambda d: f.BrokerReadOnly(*d.span(6.0)),
    lambda d: f.SessionForgotten(*d.span(0.1), d.name()),
    lambda d: f.LateAnswers(*d.span(10.0), round(d.rng.uniform(0.1, d.publish_timeout * 0.9), 3)),
    lambda d: f.OutOfOrder(*d.span(10.0)),
    lambda d: f.Twice(*d.span(10.0)),
    lambda d: f.Answered(*d.span(10.0), d.events(), d.rng.choice(_OWN_ANSWERS)),
    lambda d: f.Answered(*d.span(10.0), d.events(), d.rng.choice(_OWN_ANSWERS)),
    lambda d: f.AllRefused(*d.span(1.0)),
    lambda d: f.Kill(*d.span(4.0), d.rng.choice(d.names)),
    lambda d: f.Freeze(*d.span(d.lease * 1.5), d.rng.choice(d.names)),
    lambda d: f.Stop(*d.span(4.0), d.rng.choice(d.names)),
]

_LASTING: list[Draw] = [
    lambda d: database.RowsRefused(0.0, FOR_GOOD, d.events(), (Status.DELIVERED,)),
    lambda d: f.DestinationSilent(0.0, FOR_GOOD, *d.destination()),
    lambda d: database.RowsRefused(d.when(), FOR_GOOD, d.events(), d.rng.choice(_STATES)),
    lambda d: database.Busy(d.when(), FOR_GOOD, "", "claim", d.rng.choice([1, 4])),
    lambda d: database.Busy(d.when(), FOR_GOOD, "", "settle", d.rng.choice([1, 4])),
    lambda d: f.Answered(d.when(), FOR_GOOD, d.events(), d.rng.choice(_OWN_ANSWERS)),
    lambda d: f.Answered(0.0, FOR_GOOD, d.events(2), Answer.CUT),
    lambda d: f.Answered(0.0, FOR_GOOD, d.scarred, Answer.SILENT) if d.scarred else None,
    lambda d: f.Answered(0.0, FOR_GOOD, d.scarred, Answer.DROP) if d.scarred else None,
    lambda d: database.RowsLocked(d.when(), FOR_GOOD, d.events()),
    lambda d: database.RowsLocked(d.when(), FOR_GOOD, d.events()),
    lambda d: f.Answered(0.0, FOR_GOOD, d.events(), d.rng.choice([Answer.SILENT, Answer.DROP, Answer.REFUSE])),
    lambda d: f.LateAnswers(d.when(), FOR_GOOD, round(d.rng.uniform(0.5, 0.9) * d.publish_timeout, 3)),
    lambda d: f.OutOfOrder(0.0, FOR_GOOD),
    lambda d: f.Twice(0.0, FOR_GOOD),
    lambda d: f.Kill(d.when(), FOR_GOOD, d.rng.choice(d.spare)) if d.spare else None,
    lambda d: f.Freeze(d.when(), FOR_GOOD, d.rng.choice(d.spare)) if d.spare else None,
    lambda d: f.Stop(d.when(), FOR_GOOD, d.rng.choice(d.spare)) if d.spare else None,
    lambda d: database.DatabaseAway(d.when(), FOR_GOOD, d.rng.choice(d.spare)) if d.spare else None,
    lambda d: database.DatabaseSilent(d.when(), FOR_GOOD, d.rng.choice(d.spare)) if d.spare else None,
    lambda d: f.BrokerAway(d.when(), FOR_GOOD, d.rng.choice(d.spare)) if d.spare else None,
    lambda d: f.BrokerSilent(d.when(), FOR_GOOD, d.rng.choice(d.spare)) if d.spare else None,
]
