"""The whole engine under random histories of a storage that fails, brokers that come and go, and relays that die.

Two relays of one name work on a table in memory, each with a broker of its own; time is virtual, so that a history of
many minutes takes a moment. Whatever happens, in the end every event is DELIVERED or DEAD, and:

- DELIVERED is what a broker has acknowledged, DEAD what was refused for good or has used up its attempts;
- an event has as many attempts as it had refusals (and timeouts that were its own) and expired leases, none more for
  a write that was repeated;
- an event reaches the brokers twice only if its lease expired or its relay died meanwhile;
- no relay takes back an event whose outcome it knows, and no loop of a relay ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, OutboxEvent, Status
from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, TimedOut, Transient
from relay.engine.options import EngineOptions
from relay.engine.relay import Relay
from tests.support.doubles.faulty_storage import Fault, FaultyOutbox, Truth
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryTable
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.timeout(300)

LEASE = 40.0
RETRY = RetryPolicy(max_attempts=6, base_delay=1.0, max_delay=10.0, jitter=0.1)
OPTIONS = EngineOptions(
    batch_size=10, max_in_flight=40, lease_timeout=LEASE, connect_retry_interval=2.0, probe_timeout=1.0, retry=RETRY
)
WRITES = ("claim", "settle", "reap")
BEFORE = (Fault.BUSY, Fault.AWAY, Fault.SILENT)
"""A renewal whose reply was lost is read back inside the storage, so for it these are all."""
ANSWERS: dict[str, Outcome | None] = {
    "yes": ACKNOWLEDGED,
    "no": Transient("LEADER", "changed"),
    "never": Permanent("TOO_LARGE", ""),
    "late": TimedOut("NO_ACK", ""),
    "held": None,
}


class Node:
    """One relay, its broker and its way to the table."""

    def __init__(
        self, truth: Truth, loop: VirtualTimeLoop, refusals: Counter[EventId], timeouts: Counter[EventId]
    ) -> None:
        self.storage = FaultyOutbox(truth, "twin", loop.time, retry=RETRY)
        self.broker = MemoryPublisher()
        self.telemetry = MemoryTelemetry()
        self.relay = Relay(self.storage, self.broker, self.telemetry, OPTIONS, clock=loop.time)
        self.storage.known = self.known
        self.answer = "yes"
        self._refusals = refusals
        self._timeouts = timeouts
        self.broker.answer_with(self._script)
        self.task = loop.create_task(self.relay.run())

    def known(self) -> set[EventId]:
        """Outcomes that wait to be written."""
        batches = self.relay.inflight.batches
        return {event_id for batch in batches if not batch.writing for event_id in batch.settlement.event_ids()}

    def _script(self, event: OutboxEvent) -> Outcome | None:
        outcome = ANSWERS[self.answer]
        if isinstance(outcome, Transient | Permanent):
            self._refusals[event.event_id] += 1
        if isinstance(outcome, TimedOut):
            self._timeouts[event.event_id] += 1
        return outcome

    def heal(self) -> None:
        """Everything works from now on."""
        self.storage.faults.clear()
        self.answer = "yes"
        self.broker.up()
        self.broker.answer()


class Machine(RuleBasedStateMachine):
    """One random history."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.table = MemoryTable()
        self.truth = Truth(self.table, LEASE)
        self.refusals: Counter[EventId] = Counter()
        self.timeouts: Counter[EventId] = Counter()
        self.dead_brokers: list[MemoryPublisher] = []
        self.held_at_death: Counter[EventId] = Counter()
        self.nodes = [self.new_node() for _ in range(2)]
        self.loop.pass_time(1.0)

    def new_node(self) -> Node:
        return Node(self.truth, self.loop, self.refusals, self.timeouts)

    @rule(count=st.integers(1, 25))
    def insert(self, count: int) -> None:
        for _ in range(count):
            self.table.insert()

    @rule(node=st.integers(0, 1), op=st.sampled_from(WRITES), faults=st.lists(st.sampled_from(Fault), max_size=3))
    def trouble(self, node: int, op: str, faults: list[Fault]) -> None:
        self.nodes[node].storage.faults.setdefault(op, deque()).extend(faults)

    @rule(
        node=st.integers(0, 1),
        op=st.sampled_from(["renew", "ping", "stats"]),
        faults=st.lists(st.sampled_from(BEFORE), max_size=3),
    )
    def other_trouble(self, node: int, op: str, faults: list[Fault]) -> None:
        self.nodes[node].storage.faults.setdefault(op, deque()).extend(faults)

    @rule(node=st.integers(0, 1), answer=st.sampled_from(sorted(ANSWERS)))
    def broker_answers(self, node: int, answer: str) -> None:
        self.nodes[node].answer = answer

    @rule(node=st.integers(0, 1), how=st.sampled_from(["down", "hang", "up"]))
    def broker_is(self, node: int, how: str) -> None:
        self.loop.call(getattr(self.nodes[node].broker, how))

    @rule(node=st.integers(0, 1))
    def broker_answers_what_it_held(self, node: int) -> None:
        self.loop.call(self.nodes[node].broker.answer)

    @rule(seconds=st.sampled_from([0.003, 0.05, 1.0, 6.0, 20.0, 50.0]))
    def run(self, seconds: float) -> None:
        self.loop.pass_time(seconds)

    @rule(node=st.integers(0, 1))
    def kill(self, node: int) -> None:
        """SIGKILL; an init system starts another in its place."""
        killed = self.nodes[node]
        killed.storage.gone = True
        self.held_at_death.update(self._held(killed))
        self.dead_brokers.append(killed.broker)
        killed.task.cancel()
        self.nodes[node] = self.new_node()
        self.loop.pass_time(0.5)

    @rule(node=st.integers(0, 1))
    def restart(self, node: int) -> None:
        """SIGTERM, and another in its place."""
        stopped = self.nodes[node]
        stopped.relay.stop()
        self.loop.run_until_complete(asyncio.wait({stopped.task}))
        assert stopped.task.exception() is None
        stopped.storage.gone = True
        self.held_at_death.update(self._held(stopped))
        self.dead_brokers.append(stopped.broker)
        self.nodes[node] = self.new_node()

    @staticmethod
    def _held(node: Node) -> list[EventId]:
        return [event_id for batch in node.relay.inflight.batches for event_id in batch.held_ids()]

    @invariant()
    def every_loop_lives(self) -> None:
        for node in self.nodes:
            assert not node.task.done()
            assert node.relay.ended_loops() == []

    @invariant()
    def locks_are_set_exactly_while_delivering(self) -> None:
        for row in self.table.rows.values():
            assert (row.status is Status.DELIVERING) == (row.locked_at is not None) == (row.locked_by is not None)
            assert (row.status is Status.DELIVERED) == (row.delivered_at is not None)

    def teardown(self) -> None:
        try:
            self.finish()
            self.check_the_end()
        finally:
            self.loop.end()

    def finish(self) -> None:
        """Everything works from now on, for long enough."""
        for _ in range(40):
            for node in self.nodes:
                self.loop.call(node.heal)
            self.loop.pass_time(10.0)
            if all(row.status in (Status.DELIVERED, Status.DEAD) for row in self.table.rows.values()):
                break
        self.loop.pass_time(10.0)

    def check_the_end(self) -> None:
        brokers = [*self.dead_brokers, *(node.broker for node in self.nodes)]
        arrived = Counter(event.event_id for broker in brokers for event in broker.messages)
        for row in self.table.rows.values():
            one = row.event_id
            assert row.status in (Status.DELIVERED, Status.DEAD), row
            if row.status is Status.DELIVERED:
                assert arrived[one] >= 1, "delivered, and no broker has it"
            elif self.truth.reaped[one] == 0:
                assert RETRY.exhausted(row.attempts) or (row.last_error or "").startswith("TOO_LARGE"), row
            reaped = self.truth.reaped[one]
            assert reaped <= row.attempts <= reaped + self.refusals[one] + self.timeouts[one], row
            if not reaped and not self.held_at_death[one]:
                assert arrived[one] <= 1, f"sent {arrived[one]} times: {row}"
                assert self.refusals[one] <= row.attempts, row
        for node in self.nodes:
            assert node.relay.inflight.events == 0
            assert node.relay.inflight.payload_bytes == 0


def test_no_history_of_faults_loses_repeats_or_miscounts_an_event() -> None:
    bounds = settings(
        max_examples=100,
        stateful_step_count=30,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=bounds)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_history_of_faults_in_many() -> None:
    bounds = settings(
        max_examples=3_000,
        stateful_step_count=60,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=bounds)
