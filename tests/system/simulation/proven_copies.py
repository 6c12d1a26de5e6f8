"""Histories in which events go to a broker with transactions and to a second one without.

A reader of the first one's committed messages sees no event twice, whatever is killed, frozen or cut off. The second
one has every event at least once. No row is DELIVERED before both have it; a dead one that the first one has says so.
"""

from __future__ import annotations

import random
from dataclasses import replace

from relay.core.event import EventId, Status
from relay.core.ports import Publisher
from relay.engine.engine_options import EngineOptions
from tests.system.simulation import faults as f
from tests.system.simulation.broker import Broker, Client
from tests.system.simulation.fan_out import BOTH, AtAudit, FanOutLedger, FanOutWorld
from tests.system.simulation.faults import Fault
from tests.system.simulation.ledger import Violation
from tests.system.simulation.plan import Plan
from tests.system.simulation.transactional_broker import TransactionalBroker
from tests.system.simulation.transactional_client import TransactionalClient
from tests.system.simulation.transactions import TransactionalLedger, TransactionalWorld, draw_transactions


class ProvenLedger(TransactionalLedger, FanOutLedger):
    """The account of the table, and of what a reader of committed messages sees at the first broker."""

    __slots__ = ()


class ProvenWorld(FanOutWorld, TransactionalWorld):
    """A history with both."""

    ledger_type = ProvenLedger
    client_type: type[Client] = TransactionalClient
    broker_type: type[Broker] = TransactionalBroker

    def _prepare(self) -> None:
        TransactionalWorld._prepare(self)
        FanOutWorld._prepare(self)
        assert isinstance(self.ledger, ProvenLedger)
        assert self.ledger.audit is not None
        self.ledger.audit.remembers = False  # at least once

    def _publisher(self, client: Client, options: EngineOptions) -> Publisher:
        TransactionalWorld._publisher(self, client, options)
        return FanOutWorld._publisher(self, client, options)

    def run(self) -> None:
        """Let it happen; raises Violation."""
        TransactionalWorld.run(self)

    def _check_in_order(self) -> None:
        assert isinstance(self.ledger, ProvenLedger)
        FanOutWorld._check_order(self, self.ledger)

    def _check_seen(self, one: EventId) -> None:
        """It is delivered; or dead for the second broker, and the row says that the first one has it."""
        row = self.database.table.rows.get(one)
        if row is None or row.status is Status.DELIVERED:
            return
        names = (row.acknowledged_by or "").split(",")
        if not (row.event_type in BOTH and row.status is Status.DEAD and "main" in names):
            raise Violation(f"{one}: a reader has seen it, and it is {row.status}, acknowledged by {names}")


def draw_proven(seed: int) -> Plan:
    """The plan of one seed: that of histories with transactions, with some of its faults at the second broker."""
    basis = draw_transactions(seed)
    rng = random.Random(f"proven copies {seed}")

    def moved(fault: Fault) -> Fault:
        at_broker = isinstance(fault, f.BrokerAway | f.BrokerSilent | f.LateAnswers | f.Answered)
        return AtAudit(fault.at, fault.until, fault) if at_broker and rng.random() < 0.6 else fault

    faults = [moved(fault) for fault in basis.faults]
    if rng.random() < 0.5:  # the second one has not answered when the first one has: what lies between is at stake
        at = rng.choice(basis.transactions).at
        until = round(at + rng.uniform(1.0, 10.0), 3)
        late = f.LateAnswers(at, until, round(basis.publish_timeout * rng.uniform(0.1, 0.8), 3))
        faults.append(AtAudit(at, until, late))
    return replace(basis, faults=tuple(sorted(faults, key=lambda one: one.at)), remembers=True)
