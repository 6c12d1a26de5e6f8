"""The plan of a seed: what ``plan`` draws, and what later kinds of history change in it.

Each kind has random numbers of its own, so that the rest of what a seed stands for does not depend on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from relay.core.pause import EVERYTHING, PauseScope, PauseTarget
from relay.outbox.margin import MARGIN
from tests.system.simulation import database_faults as database
from tests.system.simulation import faults as f
from tests.system.simulation.database_faults import Paused, SlowLink
from tests.system.simulation.faults import FOR_GOOD, Fault, Freeze
from tests.system.simulation.plan import DESTINATIONS, STANDSTILL, Plan, Transaction, draw_basis
from tests.system.simulation.watch import patience


def draw(seed: int) -> Plan:
    """The plan of one seed."""
    plan = draw_basis(seed)
    plan = _with_deletes(plan, random.Random(f"ON_DELIVERED {seed}"))
    plan = _with_crash(plan, random.Random(f"crash {seed}"))
    plan = _with_locks_in_flight(plan, random.Random(f"locks {seed}"))
    plan = replace(plan, keeps_runs=plan.key_order is not None and random.Random(f"runs {seed}").random() < 0.5)
    rng = random.Random(f"head {seed}")
    plan = _with_head(plan, rng) if rng.random() < _HEADS else plan
    rng = random.Random(f"standstill {seed}")
    if rng.random() < _STANDSTILLS:
        return _with_standstill(plan, rng)
    rng = random.Random(f"payloads {seed}")
    plan = _with_large_payloads(plan, rng) if rng.random() < _LARGE_PAYLOADS else plan
    rng = random.Random(f"away {seed}")
    plan = _with_away(plan, rng) if rng.random() < _AWAY else plan
    rng = random.Random(f"pauses {seed}")
    return _with_pauses(plan, rng) if rng.random() < _PAUSES else plan


def _with_standstill(plan: Plan, rng: random.Random) -> Plan:
    """Only one fault, which stops every relay for good."""
    at = rng.uniform(0.2, 2.0)
    stop = rng.choice(_STOPS)(at)
    return replace(plan, mode=STANDSTILL, faults=(stop,), watched_until=max(at, plan.end) + patience(plan) + 2.0)


def _with_deletes(plan: Plan, rng: random.Random) -> Plan:
    """Choose ON_DELIVERED: for the fleet, or, as during a change of the variable, for each relay."""
    of_all = rng.choice([False, False, False, True, True, None])
    relays = (replace(one, delete_delivered=rng.random() < 0.5 if of_all is None else of_all) for one in plan.relays)
    return replace(plan, relays=tuple(relays))


def _with_away(plan: Plan, rng: random.Random) -> Plan:
    """The same plan with a destination whose server is away: for a time, or where faults may last for good, too."""
    destination = rng.choice(DESTINATIONS)
    events = [event for one in plan.transactions for event in one.events if event.destination == destination]
    at = rng.choice([0.0, rng.uniform(0.0, 8.0)])
    lasts = plan.mode == "liveness" and rng.random() < 0.6
    until = FOR_GOOD if lasts else at + rng.uniform(0.5, 20.0)
    away = f.DestinationAway(at, until, destination, tuple(event.event_id for event in events))
    return replace(plan, faults=tuple(sorted((*plan.faults, away), key=lambda one: one.at)))


def _with_locks_in_flight(plan: Plan, rng: random.Random) -> Plan:
    """Rows that another session locks are locked soon after their commit, half of the time: they may be in flight."""
    committed = {event.event_id: one.at + one.late for one in plan.transactions for event in one.events}
    faults: list[Fault] = []
    for fault in plan.faults:
        at = fault.at
        if isinstance(fault, database.RowsLocked) and rng.random() < 0.5:
            at = committed[rng.choice(fault.events)] + rng.choice([rng.uniform(0.002, 0.01), rng.uniform(0.0, 2.0)])
        faults.append(replace(fault, at=at) if at < fault.until else fault)
    return replace(plan, faults=tuple(sorted(faults, key=lambda one: one.at)))


def _with_crash(plan: Plan, rng: random.Random) -> Plan:
    """The same plan with a crash of the database, which may lose claims, in some of the histories."""
    if rng.random() >= _CRASHES:
        return plan
    at = max(rng.choice(plan.transactions).at - 0.01, 0.0)
    after = rng.choice([0.0, 0.001, rng.uniform(0.0, 0.6)])
    crash = database.DatabaseCrash(at, at + 0.7 + rng.uniform(0.0, 3.0), after, rng.choice([0.5, 1.0, 1.0]))
    return replace(plan, faults=tuple(sorted((*plan.faults, crash), key=lambda one: one.at)))


def _with_pauses(plan: Plan, rng: random.Random) -> Plan:
    """The same plan with pauses, often with trouble for those who read them."""
    targets = rng.sample(_TARGETS, rng.choice([1, 1, 2, 3]))
    last_at = max(one.at for one in plan.transactions) + 2.0
    pauses: list[Fault] = []
    for target in targets:
        at = rng.choice([0.0, rng.uniform(0.0, last_at), rng.uniform(0.0, last_at)])
        lasts = plan.mode == "liveness" and rng.random() < 0.3
        until = FOR_GOOD if lasts else at + rng.choice([rng.uniform(0.3, 12.0), _LONG_PAUSE])
        pauses.append(Paused(at, until, target, has_end=not lasts and rng.random() < 0.4))
    at = pauses[0].at
    trouble: list[Fault] = []
    if plan.mode == "safety":
        name = rng.choice([one.name for one in plan.relays])
        begin = max(at + rng.uniform(-1.0, 4.0), 0.05)
        trouble = rng.choice(_TROUBLE)(plan, rng, begin, name)
    faults = sorted((*plan.faults, *pauses, *trouble), key=lambda one: one.at)
    watched_until = max(one.at for one in pauses) + 8.0
    transactions = plan.transactions if plan.key_order else _with_late_commits(plan.transactions, rng)
    return replace(plan, faults=tuple(faults), transactions=transactions, watched_until=watched_until)


def _with_head(plan: Plan, rng: random.Random) -> Plan:
    """Claims begin at a head, behind which some transactions commit."""
    transactions = plan.transactions if plan.key_order else _with_late_commits(plan.transactions, rng)
    return replace(plan, has_head=True, transactions=transactions)


def _with_late_commits(transactions: tuple[Transaction, ...], rng: random.Random) -> tuple[Transaction, ...]:
    """Some commit so late that claims may begin behind their events, because of paused ones that are younger."""
    share = rng.choice([0.0, 0.3, 0.8])
    return tuple(
        replace(one, late=MARGIN + rng.uniform(0.5, 14.0)) if rng.random() < share else one for one in transactions
    )


def _restart(plan: Plan, rng: random.Random, at: float, name: str) -> list[Fault]:
    if any(fault.relay == name for fault in plan.faults):
        return []
    return [rng.choice([f.Kill, f.Stop, Freeze])(at, at + rng.uniform(0.1, 5.0), name)]


_TARGETS = (
    EVERYTHING,
    *(PauseTarget(PauseScope.TYPE, name) for name in DESTINATIONS),
    *(PauseTarget(PauseScope.PREFIX, name) for name in ("x", "x.", "z")),
)
_TROUBLE: list[Callable[[Plan, random.Random, float, str], list[Fault]]] = [
    lambda _plan, _rng, _at, _name: [],
    _restart,
    lambda _plan, rng, at, name: [database.ReplyLost(at, at + 4.0, name, "pauses", rng.randint(1, 3))],
    lambda _plan, rng, at, name: [database.RequestLost(at, at + 4.0, name, "pauses", rng.randint(1, 3))],
    lambda _plan, rng, at, name: [database.RequestLost(at, at + 4.0, name, "look", rng.randint(1, 3))],
    lambda _plan, rng, at, name: [database.DatabaseSilent(at, at + rng.uniform(0.5, 4.0), name)],
    # What waited meanwhile is claimed late: then claims begin behind it.
    lambda _plan, rng, at, _name: [f.BrokerAway(at, at + rng.uniform(2.0, 6.0), "")],
]
_LONG_PAUSE = 25.0  # seconds; longer than what is not paused may wait
_HEADS = 0.25  # share of the plans
_PAUSES = 0.2
_AWAY = 0.2
_CRASHES = 0.15  # share of the plans
_STOPS: list[Callable[[float], Fault]] = [
    lambda at: database.Busy(at, FOR_GOOD, "", "claim", 0),
    lambda at: database.Busy(at, FOR_GOOD, "", "settle", 0),
    lambda at: database.TableLocked(at, FOR_GOOD),
    lambda at: database.DatabaseAway(at, FOR_GOOD, ""),
    lambda at: database.DatabaseSilent(at, FOR_GOOD, ""),
    lambda at: database.DatabaseReadOnly(at, FOR_GOOD, ""),
    lambda at: f.BrokerAway(at, FOR_GOOD, ""),
    lambda at: f.BrokerSilent(at, FOR_GOOD, ""),
    lambda at: f.BrokerReadOnly(at, FOR_GOOD),
]
_STANDSTILLS = 0.04  # share of the plans
_LARGE_PAYLOADS = 0.1  # share of the plans
_SIZES = (100_000, 300_000, 700_000, 2_000_000, 5_000_000)
_BATCH_BYTES = 64 << 20
_LONGEST_TRAVEL = 15.0  # seconds for all payloads of a history over its slowest link


def _with_large_payloads(plan: Plan, rng: random.Random) -> Plan:
    """The same plan with some large payloads, a slow link, and often a relay that freezes while it receives them."""
    largest = rng.choice(_SIZES)
    lease = min(options.lease_timeout for one in plan.relays for options in one.options)
    # A payload must arrive within a part of the lease.
    rate = round(largest / (lease * rng.uniform(0.1, 0.35)))
    left = min(rate * _LONGEST_TRAVEL, _BATCH_BYTES // 3)
    transactions = []
    for one in plan.transactions:
        events = []
        for event in one.events:
            size = largest if rng.random() < 0.3 else event.size
            size = size if size <= left else event.size
            left -= size
            events.append(replace(event, size=size))
        transactions.append(replace(one, events=tuple(events)))
    relays = tuple(
        replace(one, options=tuple(replace(options, batch_bytes=_BATCH_BYTES) for options in one.options))
        for one in plan.relays
    )
    faults = (*plan.faults, *_faults(plan, rng, rate))
    return replace(plan, transactions=tuple(transactions), relays=relays, faults=faults)


def _faults(plan: Plan, rng: random.Random, rate: int) -> list[Fault]:
    liveness = plan.mode == "liveness"
    names = [one.name for one in plan.relays]
    at = rng.uniform(0.0, 0.2)
    faults: list[Fault] = [SlowLink(at, FOR_GOOD if liveness else at + 30.0, rng.choice([*names, "", ""]), rate)]
    spare = names[1:] if liveness else names
    spare = [name for name in spare if not any(fault.relay == name for fault in plan.faults)]
    if spare and rng.random() < 0.7:
        begin = rng.choice(plan.transactions).at + rng.uniform(0.0, 3.0)
        faults.append(Freeze(begin, FOR_GOOD if liveness else begin + rng.uniform(1.0, 8.0), rng.choice(spare)))
    return faults
