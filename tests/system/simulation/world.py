"""One history: the relays of a plan on one table and one broker, and what happens to them, in virtual time."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from relay.core.optional_parts import OptionalParts
from relay.core.ports import Publisher
from relay.core.status import Exposition
from relay.engine.engine_options import EngineOptions
from relay.engine.relay import Relay
from relay.engine.status import RelayStatus
from relay.outbox.pausewatch import OutboxPauses
from relay.postgres.sql import TableName
from tests.support.doubles.memory_storage import MemoryRow
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.system.simulation.broker import Broker, Client
from tests.system.simulation.database import Database, name_of
from tests.system.simulation.faults import FOR_GOOD, Fault
from tests.system.simulation.judge import Judge
from tests.system.simulation.ledger import Ledger, Violation
from tests.system.simulation.payloads import payload
from tests.system.simulation.plan import Plan, RelayPlan, Transaction
from tests.system.simulation.scheduler import Process, Scheduler
from tests.system.simulation.storage import SimulatedStorage

if TYPE_CHECKING:
    from relay.outbox.storage import PostgresOutbox

_GRACE = 1.0
_STEP = 0.5


@dataclass(slots=True)
class Incarnation:
    """One process of a relay."""

    process: Process
    relay: Relay
    storage: SimulatedStorage
    client: Client
    task: asyncio.Task[None]
    options: EngineOptions
    status: RelayStatus
    stopped_at: float | None = None
    frozen_for: float = 0.0
    frozen_at: float = 0.0

    @property
    def lives(self) -> bool:
        """Whether it runs, or is frozen."""
        return not self.process.dead and not self.task.done()


class World:
    """Everything of one history."""

    ledger_type = Ledger
    client_type: type[Client] = Client
    broker_type: type[Broker] = Broker
    storage_type = SimulatedStorage

    def __init__(self, plan: Plan) -> None:
        random.seed(plan.seed)
        self.plan = plan
        self.rng = random.Random(plan.seed + 1)
        self.scheduler = Scheduler()
        self.ledger = self.ledger_type(lambda: self.scheduler.now, plan.retry, lambda: self.database.table.now)
        self.database = Database(self.scheduler, self.ledger, self.rng)
        self.broker = self.broker_type(self.scheduler, self.ledger, self.rng)
        self._prepare()
        self.incarnations: list[Incarnation] = []
        self._numbers: dict[str, int] = {}
        self._plans = {one.name: one for one in plan.relays}
        for one in plan.relays:
            self.start(one.name)
        for transaction in plan.transactions:
            self._schedule(transaction)
        for fault in plan.faults:
            self.scheduler.at(fault.at, lambda fault=fault: self._begin(fault))  # type: ignore[misc]
            if fault.until < FOR_GOOD:
                self.scheduler.at(fault.until, lambda fault=fault: self._end(fault))  # type: ignore[misc]

    # What other kinds of history change.

    def _prepare(self) -> None:
        """Make what there is besides, before the relays start."""

    def _publisher(self, client: Client, _options: EngineOptions) -> Publisher:
        """What a relay offers its events to."""
        return client

    # What happens to relays.

    def start(self, name: str) -> None:
        """Start a relay of this name, with the settings of its next incarnation."""
        plan: RelayPlan = self._plans[name]
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        options = plan.options[min(number, len(plan.options)) - 1]
        process = Process(self.scheduler, f"{name}#{number}")  # type: ignore[abstract]
        storage = self.storage_type(
            self.database,
            process,
            name=process.name,
            relay_id=plan.relay_id,
            lease=options.lease_timeout,
            retry=options.retry,
            key_order=self.plan.key_order,
            delete_delivered=plan.delete_delivered,
            deadline=plan.deadline,
            ping_deadline=min(2.0, plan.deadline),
            pauses=bool(self.plan.pauses),
            has_head=bool(self.plan.pauses or self.plan.away or self.plan.has_head),
        )
        client = self.client_type(
            self.broker,
            process,
            timeout=self.plan.publish_timeout,
            capacity=plan.capacity,
            keeps_runs=self.plan.keeps_runs,
        )
        pauses = OutboxPauses(cast("PostgresOutbox", storage), TableName()) if self.plan.pauses else None
        parts = OptionalParts(pauses=pauses)
        relay = Relay(
            storage, self._publisher(client, options), MemoryTelemetry(), options, clock=process.time, parts=parts
        )
        task = process.create_task(relay.run())
        self.incarnations.append(
            Incarnation(process, relay, storage, client, task, options, RelayStatus(relay, plan.relay_id, _no_metrics))
        )
        self.ledger.say(f"{process.name} starts")

    def current(self, name: str) -> Incarnation:
        """The latest incarnation of this name."""
        return next(one for one in reversed(self.incarnations) if one.process.name.startswith(f"{name}#"))

    def kill(self, name: str) -> None:
        """SIGKILL."""
        one = self.current(name)
        one.process.kill()
        for statement in list(self.database.under_way):
            if statement.relay == one.process.name:
                statement.answer.cancel()

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        one = self.current(name)
        one.process.freeze()
        one.frozen_at = self.scheduler.now

    def wake(self, name: str) -> None:
        """SIGCONT."""
        one = self.current(name)
        if one.process.frozen:
            one.frozen_for += self.scheduler.now - one.frozen_at
            one.process.wake()

    def stop(self, name: str) -> None:
        """SIGTERM."""
        one = self.current(name)
        if one.lives and one.stopped_at is None:
            one.stopped_at = self.scheduler.now
            one.process.call_soon(one.relay.stop)

    # What happens to the table.

    def _schedule(self, transaction: Transaction) -> None:
        rows: list[MemoryRow] = []

        def begin() -> None:
            database = self.database
            database.set_clock()
            now = database.table.tick()
            for event in transaction.events:
                event_type = event.event_type or event.destination
                row = MemoryRow(event.event_id, event_type, payload(event.size), now, now, now, headers=event.headers)
                row.partition_key, row.attempts, row.last_error = event.key, event.attempts, event.last_error
                row.insertion_order = database.table.inserted = database.table.inserted + 1
                rows.append(row)

        def commit() -> None:
            names = " ".join(row.event_id for row in rows)
            if transaction.rolled_back:
                self.ledger.say(f"the application rolls {names} back")
                return
            self.ledger.say(f"the application commits {names}")
            for row in rows:
                self.database.table.rows[row.event_id] = row
                self.ledger.commit(row)
            self.database.table.unflushed.flush()

        self.scheduler.at(transaction.at, begin)
        self.scheduler.at(transaction.at + transaction.late, commit)

    def _begin(self, fault: Fault) -> None:
        self.ledger.say(f"FAULT {fault.describe()}" + (" for good" if fault.until == FOR_GOOD else ""))
        fault.begin(self)

    def _end(self, fault: Fault) -> None:
        self.ledger.say(f"OVER  {fault.describe()}")
        fault.end(self)

    # The history.

    def run(self) -> None:
        """Let it happen; raises Violation."""
        judge = Judge(self.plan, self.ledger)
        until = 0.0
        while True:
            until += _STEP
            self.scheduler.run(until)
            self._check_processes()
            judge.watch(until, self._readiness())
            if until > self.plan.end + _GRACE and judge.all_done(until):
                break
        judge.check_history()
        self.ledger.check_table(self.database.table.rows, self._deletes)
        self._check_the_end()

    def _check_processes(self) -> None:
        for one in self.incarnations:
            if one.process.failures:
                raise Violation(f"{one.process.name}: {one.process.failures[0]}")
            if one.process.dead or one.process.frozen:
                continue
            if one.task.done():
                self._check_ended(one)
            elif one.stopped_at is not None:
                late = self.scheduler.now - one.stopped_at - one.frozen_for - one.options.shutdown_timeout
                if late > _STEP:
                    raise Violation(f"{one.process.name} has not stopped within {one.options.shutdown_timeout:g} s")
            elif one.relay.ended_loops():
                raise Violation(f"{one.process.name}: the {', '.join(one.relay.ended_loops())} loop ended")

    def _readiness(self) -> dict[str, bool]:
        """What /readyz of each relay that runs, and is not to stop, says."""
        running = (one for one in self.incarnations if one.lives and not one.process.frozen and one.stopped_at is None)
        return {one.process.name: one.status.readiness().ready for one in running}

    def _deletes(self, relay: str) -> bool:
        return self._plans[name_of(relay)].delete_delivered

    @staticmethod
    def _check_ended(one: Incarnation) -> None:
        error = one.task.exception()
        if error is not None:
            raise Violation(f"{one.process.name} died: {error!r} from {error.__cause__!r}") from error
        if one.stopped_at is None:
            raise Violation(f"{one.process.name} ended without a stop")

    def _check_the_end(self) -> None:
        """Nothing is left in the memory of a relay once nothing is left to do."""
        if self.plan.lasting:
            return
        self.scheduler.run(self.scheduler.now + 3.0)
        relays = [one for one in self.incarnations if one.lives and not one.process.frozen]
        if any(one.relay.inflight.events for one in relays):
            # A verdict on a lease that was lost, sent while the database was silent, is given up at its deadline.
            self.scheduler.run(self.scheduler.now + max(one.deadline for one in self.plan.relays))
        for one in relays:
            inflight = one.relay.inflight
            if any(held := (inflight.events, inflight.bytes_held, len(inflight.batches))):
                raise Violation(f"{one.process.name} still holds events, bytes, batches: {held}")
        if any(one.client.pending for one in relays):
            # Messages whose lease was lost are answered, or time out, later than another relay delivered their events.
            self.scheduler.run(self.scheduler.now + self.plan.publish_timeout)
        for one in relays:
            if one.client.pending:
                raise Violation(f"{one.process.name} still holds {len(one.client.pending)} messages")

    def bury(self) -> None:
        """Let everything end."""
        for one in self.incarnations:
            one.storage.closed = True
            one.process.bury()


def _no_metrics(_accept: str) -> Exposition:
    raise NotImplementedError("histories look at /readyz alone")


@dataclass(slots=True)
class Result:
    """What became of one plan."""

    plan: Plan
    violation: BaseException | None
    world: World

    def text(self) -> str:
        """The history, a line for each thing that happened."""
        plan = self.plan
        head = [f"seed {plan.seed}, {plan.mode}, order per key: {plan.key_order}", f"violation: {self.violation}"]
        head += [f"  lease {plan.lease:g} s, publish timeout {plan.publish_timeout:g} s, {plan.retry}"]
        head += [
            f"  {one.name}{self._deletes(one)}: {one.options[0]}, deadline {one.deadline:g}" for one in plan.relays
        ]
        return "\n".join([*head, *(f"{at:9.4f}  {line}" for at, line in self.world.ledger.lines)])

    @staticmethod
    def _deletes(one: RelayPlan) -> str:
        return " (ON_DELIVERED=delete)" if one.delete_delivered else ""


def play(plan: Plan, kind: type[World] = World) -> Result:
    """Play one plan."""
    world = kind(plan)
    violation: BaseException | None = None
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001 - whatever a history raises is what it found
        violation = error
    try:
        world.bury()
    finally:
        logging.disable(disabled)
    return Result(plan, violation, world)
