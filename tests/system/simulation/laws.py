"""Histories in which one of two destinations that share a publisher is in trouble for good: the laws in virtual time.

In a third of them events for one broker alone share a type, and a header says which one that is.

Law 1: whatever the second broker is in, the first one has its events at once, and its copies of those for both. Law 2:
where the second one answers probes, no event is released twice without an attempt.

In a third of them the second broker has a rate besides, in each relay. It is never handed more, and law 1 holds for
events of the first broker alone; those for both are claimed as the rate lets them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from relay.core.event import EventId, Status
from relay.engine.destination.pace import TokenBucket
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from tests.support.doubles.memory_storage import MemoryRow
from tests.system.simulation import faults as f
from tests.system.simulation.broker import Answer, Client
from tests.system.simulation.fan_out import (
    TYPE,
    AtAudit,
    DestinationLedger,
    FanOutLedger,
    FanOutWorld,
)
from tests.system.simulation.faults import FOR_GOOD, Fault
from tests.system.simulation.ledger import Violation
from tests.system.simulation.plan import NewEvent, Plan, Transaction, draw_basis
from tests.system.simulation.rates import PacedClient, RateAccount
from tests.system.simulation.scheduler import Process
from tests.system.simulation.world import World

ALONE, BOTH = "x", "x.y"
"""The event type that goes to the second broker, and the one that goes to both; the rest goes to the first."""
BY_HEADER = "h"
"""The event type of which a header says the broker."""
_HEADERS = {ALONE: '{"to": "audit"}', "z": '{"to": "main"}'}
BOUND = 2.0
"""Seconds, of which 99 of 100 events of the first broker take less."""
_BURST = 6
"""Events: more than half of what the smallest relay keeps for destinations that answer."""
_BURSTS = 0.3
"""Share of the histories with bursts of events for a slow destination that one relay has."""
_BY_HEADER = 1 / 3
"""Share of the histories in which a header says the broker."""
_PACED = 1 / 3
"""Share of the histories in which the second broker has a rate."""
_RATES = (0.5, 3.0, 20.0, 50.0)
_WATCHED = 10.0
"""Seconds after the last insert."""


@dataclass(slots=True)
class LawLedger(FanOutLedger):
    """Counts how often an event was released since its last attempt."""

    releases: Counter[EventId] = field(default_factory=Counter)
    most_releases: dict[EventId, int] = field(default_factory=dict)

    def goes_to(self, event_type: str) -> list[DestinationLedger]:
        if self.audit is None or event_type not in (ALONE, BOTH):
            return [self]
        return [self.audit] if event_type == ALONE else [self, self.audit]

    def kind_of(self, row: MemoryRow) -> str:
        return next((kind for kind, headers in _HEADERS.items() if row.headers == headers), row.event_type)

    def change(self, before: MemoryRow, after: MemoryRow, actor: str, op: str) -> None:
        if self.kind_of(after) == ALONE and self.audit is not None:
            self.acknowledged[after.event_id] = self.audit.acknowledged[after.event_id]
        FanOutLedger.change(self, before, after, actor, op)
        if op == "settle" and after.status is Status.PENDING:
            one = after.event_id
            self.releases[one] = self.releases[one] + 1 if after.attempts == before.attempts else 0
            self.most_releases[one] = max(self.most_releases.get(one, 0), self.releases[one])


class LawWorld(FanOutWorld):
    """A history of one trouble."""

    ledger_type = LawLedger
    routes = Routes(
        [
            Rule(1, ALONE, TYPE, "audit"),
            Rule(2, BOTH, TYPE, "main", (Target("audit", TYPE),)),
            Rule(3, BY_HEADER, read_template("{header:to}.{type}", ""), "either"),
        ],
        default="main",
        further={"either": Routes([Rule(1, "main.*", TYPE, "main"), Rule(2, "*", TYPE, "audit")], default=None)},
    )

    def _prepare(self) -> None:
        super()._prepare()
        self._rates: list[RateAccount] = []

    def _second(self, client: Client) -> Client:
        if self.plan.rate is None:
            return super()._second(client)
        account = RateAccount(client.process.name, self.plan.rate)
        self._rates.append(account)
        timeout, capacity = self.plan.publish_timeout, client._capacity
        return PacedClient(self.audit, client.process, account, timeout=timeout, capacity=capacity)

    def _paces(self, process: Process) -> Mapping[str, TokenBucket]:
        return {} if self.plan.rate is None else {"audit": TokenBucket(self.plan.rate, process.time)}

    def run(self) -> None:
        """Let it happen; raises Violation."""
        ledger = self.ledger
        assert isinstance(ledger, LawLedger)
        self.scheduler.run(self.plan.end + _WATCHED)
        self._check_processes()
        ledger.check_table(self.database.table.rows, self._deletes)
        self._check_first(ledger)
        self._check_releases(ledger)
        self._check_order(ledger)
        for account in self._rates:
            account.check()

    def _check_first(self, ledger: LawLedger) -> None:
        """Law 1; in order per key an event for both holds up those behind it."""
        events = [one for transaction in self.plan.transactions for one in transaction.events]
        places = min(one.options[0].max_in_flight for one in self.plan.relays)
        # Of events for both those that wait for a slow answer keep their places.
        few = sum(one.destination == BOTH for one in events) <= places // 8 or not self._is_slow()
        few &= self.plan.rate is None  # else those that wait for it leave the others of their type unclaimed
        behind: set[str | None] = set()
        of_first: list[NewEvent] = []
        for one in events:
            if one.destination != ALONE and one.key not in behind and (one.destination != BOTH or few):
                of_first.append(one)
            if self.plan.key_order is not None and one.destination == BOTH:
                behind.add(one.key)
        waits = sorted((self._wait(ledger, one.event_id), one.event_id) for one in of_first)
        late = [one for one in waits if one[0] > BOUND]
        if len(late) * 100 > len(waits):
            wait, last = late[-1]
            raise Violation(f"{last}: the first broker got it {wait:.3f} s after its commit")

    def _is_slow(self) -> bool:
        """Whether the second broker answers probes, does not say that it takes nothing, and is late with events."""
        [fault] = self.plan.faults
        inner = fault.fault if isinstance(fault, AtAudit) else fault
        return isinstance(inner, f.LateAnswers) or (isinstance(inner, Blocked) and not inner.says)

    def _wait(self, ledger: LawLedger, one: EventId) -> float:
        arrivals = ledger.arrivals.get(one)
        return FOR_GOOD if arrivals is None else arrivals[0][0] - ledger.inserted[one]

    def _check_releases(self, ledger: LawLedger) -> None:
        """Law 2; in order per key an event is also released behind another one's attempt."""
        [fault] = self.plan.faults
        answered = isinstance(fault, AtAudit) and not isinstance(fault.fault, f.BrokerAway | f.BrokerSilent | Blocked)
        for one, releases in ledger.most_releases.items():
            if answered and releases > 1 and self.plan.key_order is None:
                raise Violation(f"{one}: released {releases} times without an attempt, while probes are answered")


@dataclass(frozen=True, slots=True)
class Blocked(Fault):
    """It answers probes, takes nothing, and may say so."""

    says: bool

    def begin(self, world: World) -> None:
        world.broker.blocks = True
        world.broker.blocked = "low on memory" if self.says else ""


def _transactions(rng: random.Random, places: int, *, in_order: bool, bursts: bool) -> tuple[Transaction, ...]:
    numbers = count(1)
    large = rng.choice([2, 2, 1 << 16])  # bytes of an event of the destination in trouble

    def new(event_type: str) -> NewEvent:
        of = {ALONE: "a", BOTH: "b"}.get(event_type, "c")
        key = f"{of}{rng.randrange(40)}" if in_order or rng.random() < 0.3 else None
        return NewEvent(EventId(f"e{next(numbers)}"), event_type, key, large if event_type == ALONE else 2)

    def insert(at: float, event_types: Sequence[str]) -> Transaction:
        return Transaction(at, 0.0, rolled_back=False, events=tuple(map(new, event_types)))

    times = sorted(round(rng.uniform(0.1, 10.0), 3) for _ in range(12))
    waiting = rng.choice([(BOTH,), (ALONE, BOTH)])

    def later() -> list[str]:
        if bursts and rng.random() < 0.5:
            return [*rng.choices(waiting, k=_BURST), "z"]
        return rng.choices(["z", "z", "z", ALONE, BOTH], k=2)

    first = insert(0.0, [ALONE] * rng.choice([places + 20 if bursts else 5, places + 20]))
    return (first, *(insert(at, later()) for at in times))


def _by_header(transactions: Sequence[Transaction]) -> tuple[Transaction, ...]:
    """The same, where the broker is said by a header, but for events that go to both."""

    def told(event: NewEvent) -> NewEvent:
        headers = _HEADERS.get(event.destination)
        return event if headers is None else replace(event, event_type=BY_HEADER, headers=headers)

    return tuple(replace(one, events=tuple(map(told, one.events))) for one in transactions)


def draw_law(seed: int) -> Plan:
    """The plan of one seed: that of ``_draw_trouble``, of a third with a rate."""
    rng = random.Random(f"rate {seed}")
    return replace(_draw_trouble(seed), rate=rng.choice(_RATES) if rng.random() < _PACED else None)


def _draw_trouble(seed: int) -> Plan:
    """Without a rate: relays and keys of other histories, a trouble for good, and more events of it than fit."""
    basis = draw_basis(seed)
    rng = random.Random(f"law {seed}")
    bursts = rng.random() < _BURSTS
    # Half of the last quarter is for those for both that wait for a slow one.
    places = rng.choice([20, 40] if bursts else [20, 40, 80])
    relays = tuple(
        replace(
            one,
            capacity=1000,
            options=tuple(
                replace(
                    each, max_in_flight=places, batch_size=rng.choice([3, 10]), poll_interval=0.5, batch_bytes=1 << 20
                )
                for each in one.options[:1]
            ),
        )
        for one in (basis.relays[:1] if bursts else basis.relays)
    )
    transactions = _transactions(rng, places, in_order=basis.key_order is not None, bursts=bursts)
    mine = tuple(one.event_id for each in transactions for one in each.events if one.destination in (ALONE, BOTH))
    slow: list[Callable[[], Fault]] = [
        lambda: f.LateAnswers(0.0, FOR_GOOD, round(basis.publish_timeout * rng.uniform(0.3, 0.9), 3)),
        lambda: Blocked(0.0, FOR_GOOD, says=False),
    ]
    troubles: list[Callable[[], Fault]] = [
        lambda: f.BrokerAway(0.0, FOR_GOOD, ""),
        lambda: f.BrokerSilent(0.0, FOR_GOOD, ""),
        slow[0],
        lambda: Blocked(0.0, FOR_GOOD, rng.random() < 0.5),
        lambda: f.AllRefused(0.0, FOR_GOOD),
        lambda: f.Answered(0.0, FOR_GOOD, mine, Answer.CUT),
        lambda: f.Answered(0.0, FOR_GOOD, mine[:2], Answer.CUT),
    ]
    fault = AtAudit(0.0, FOR_GOOD, rng.choice(slow if bursts else troubles)())
    transactions = _by_header(transactions) if rng.random() < _BY_HEADER else transactions
    return replace(
        basis, relays=relays, transactions=transactions, faults=(fault,), keeps_runs=False, remembers=True, mode="laws"
    )
