"""Random histories of two relays of one name on a table in memory, each with a broker of its own, in virtual time.

Whatever happens, in the end every event is DELIVERED or DEAD, and:

- DELIVERED is what a broker has acknowledged, DEAD what was refused for good or has used up its attempts;
- an event has as many attempts as it had refusals (and timeouts that were its own) and expired leases, none more for
  a write that was repeated;
- an event reaches the brokers twice only if its lease expired or its relay died meanwhile;
- no relay takes back an event whose outcome it knows, and no loop of a relay ends;
- in order per key, the first arrivals of each key are in the order of insertion, and of a key one event is with a
  broker at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import replace

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, OutboxEvent, Status
from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, TimedOut, Transient
from relay.engine.relay import Relay
from relay.outbox.outbox_options import KeyOrder
from tests.support.doubles.faulty_storage import Fault, FaultyOutbox, Truth
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryRow, MemoryTable
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.options import engine_options
from tests.support.virtual_time import VirtualTimeLoop

LEASE = 40.0
RETRY = RetryPolicy(max_attempts=6, base_delay=1.0, max_delay=10.0, jitter=0.1)
OPTIONS = engine_options(
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


def refuse_delivered(_before: MemoryRow, after: MemoryRow) -> str | None:
    """CHECK (NOT (status = 'DELIVERED' AND event_type = 'bad'))."""
    return 'check constraint "no_bad"' if after.status is Status.DELIVERED and after.event_type == "bad" else None


class Node:
    """One relay, its broker and its way to the table."""

    def __init__(
        self,
        truth: Truth,
        loop: VirtualTimeLoop,
        key_order: KeyOrder | None,
        refusals: Counter[EventId],
        timeouts: Counter[EventId],
        arrivals: list[OutboxEvent],
    ) -> None:
        self.storage = FaultyOutbox(truth, "twin", loop.time, retry=RETRY, key_order=key_order)
        self.broker = MemoryPublisher()
        self.broker.messages = arrivals
        self.telemetry = MemoryTelemetry()
        options = replace(OPTIONS, in_order=key_order is not None)
        self.relay = Relay(self.storage, self.broker, self.telemetry, options, clock=loop.time)
        self.storage.known = self.known
        self.answer = "yes"
        self._refusals = refusals
        self._timeouts = timeouts
        self.broker.answer_with(self._script)
        self.task = loop.create_task(self.relay.run())

    def known(self) -> set[EventId]:
        """Outcomes that wait to be written; not those of rows that the database refuses, which expire in the end."""
        known: set[EventId] = set()
        for batch in self.relay.inflight.batches:
            if not batch.writing:
                known.update(batch.verdicts.event_ids())
                known.update(one for part in batch.aside if not part.refusals for one in part.settlement.event_ids())
        return known

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

    key_order: KeyOrder | None = None

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.table = MemoryTable()
        self.truth = Truth(self.table, LEASE)
        self.refusals: Counter[EventId] = Counter()
        self.timeouts: Counter[EventId] = Counter()
        self.arrivals: list[OutboxEvent] = []
        """What the brokers have, in the order of its acknowledgements."""
        self.held_at_death: Counter[EventId] = Counter()
        self.nodes = [self.new_node() for _ in range(2)]
        self.loop.pass_time(1.0)

    def new_node(self) -> Node:
        return Node(self.truth, self.loop, self.key_order, self.refusals, self.timeouts, self.arrivals)

    @rule(count=st.integers(1, 25), keys=st.integers(1, 6), event_type=st.sampled_from(["good", "good", "bad"]))
    def insert(self, count: int, keys: int, event_type: str) -> None:
        for number in range(count):
            self.table.insert(event_type, partition_key=f"key-{number % keys}" if number % 5 else None)

    @rule(refuses=st.booleans())
    def table_refuses(self, refuses: bool) -> None:
        """A constraint on what is delivered comes or goes."""
        self.table.trigger = refuse_delivered if refuses else None

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
        self.table.trigger = None
        for _ in range(40):
            for node in self.nodes:
                self.loop.call(node.heal)
            self.loop.pass_time(10.0)
            if all(row.status in (Status.DELIVERED, Status.DEAD) for row in self.table.rows.values()):
                break
        self.loop.pass_time(10.0)

    def check_the_end(self) -> None:
        arrived = Counter(event.event_id for event in self.arrivals)
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
            assert node.relay.inflight.bytes_held == 0
        if self.key_order is not None:
            self.check_order()

    def check_order(self) -> None:
        """The first arrivals of each key are in the order of insertion."""
        last: dict[str | None, int] = {}
        seen: set[EventId] = set()
        for event in self.arrivals:
            if event.partition_key is None or event.event_id in seen:
                continue
            seen.add(event.event_id)
            order = self.table.rows[event.event_id].insertion_order
            assert order > last.get(event.partition_key, 0), event
            last[event.partition_key] = order


class OrderedMachine(Machine):
    """One random history in order per key."""

    key_order = KeyOrder.SKIP

    @invariant()
    def one_event_of_a_key_is_with_a_broker(self) -> None:
        for node in self.nodes:
            keys = Counter(event.partition_key for event in node.broker.held if event.partition_key is not None)
            assert all(count == 1 for count in keys.values())


def run_histories(machine: type[Machine], histories: int, steps: int) -> None:
    """Run that many random histories of that many steps."""
    bounds = settings(
        max_examples=histories,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=bounds)
