"""A relay on doubles, in virtual time: no server, and minutes of its life in a moment."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, Status
from relay.core.optional_parts import Fleet, MinuteSeries, OptionalParts, WakeUps
from relay.core.recorder import AttemptRecorder
from relay.core.tracing import Tracer
from relay.engine.relay import Relay
from relay.outbox.outbox_options import KeyOrder
from tests.support.doubles.faulty_storage import Fault, FaultyOutbox, Truth
from tests.support.doubles.memory_pauses import MemoryPauses
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryRow, MemoryTable
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.options import engine_options
from tests.support.virtual_time import VirtualTimeLoop

RETRY = RetryPolicy(max_attempts=3, base_delay=60.0, max_delay=600.0, jitter=0.0)


class VirtualRelay:
    """One relay, its table and its broker. Nothing happens but in ``run``."""

    def __init__(
        self,
        broker: MemoryPublisher | None = None,
        *,
        key_order: KeyOrder | None = None,
        recorder: AttemptRecorder | None = None,
        wake_ups: WakeUps | None = None,
        tracer: Tracer | None = None,
        fleet: Fleet | None = None,
        series: MinuteSeries | None = None,
        **options: object,
    ) -> None:
        values: dict[str, object] = {"retry": RETRY, "in_order": key_order is not None}
        self.options = engine_options(**(values | options))
        self.loop = VirtualTimeLoop()
        self.suspended = 0.0
        self.table = MemoryTable()
        self.truth = Truth(self.table, self.options.lease_timeout)
        self.storage = FaultyOutbox(self.truth, "relay", self.seconds, retry=self.options.retry, key_order=key_order)
        self.broker = broker or MemoryPublisher()
        self.telemetry = MemoryTelemetry()
        self.pauses = MemoryPauses(self.storage)
        self.relay = Relay(
            self.storage,
            self.broker,
            self.telemetry,
            self.options,
            recorder,
            self.seconds,
            tracer=tracer,
            parts=OptionalParts(wake_ups, self.pauses, fleet, series),
        )
        self.task = self.loop.create_task(self.relay.run())

    def seconds(self) -> float:
        """The relay's clock, which counts suspension."""
        return self.loop.time() + self.suspended

    def suspend(self, seconds: float) -> None:
        """Let the host sleep: the database's time passes, and no timer of the relay does."""
        self.suspended += seconds

    def run(self, seconds: float = 2.0) -> None:
        """Let time pass."""
        self.loop.pass_time(seconds)

    def until(self, happened: Callable[[], object], seconds: float = 60.0) -> float:
        """Let time pass until it has happened; the seconds that took. Fails when it does not within ``seconds``."""
        began = self.loop.time()
        while not happened():
            assert self.loop.time() - began < seconds, f"not within {seconds:g} s of virtual time"
            self.loop.pass_time(0.005)
        return self.loop.time() - began

    def do(self, work: Callable[[], object]) -> None:
        """Call something of a double's or the relay's inside the loop."""
        self.loop.call(work)

    def fail(self, op: str, *faults: Fault) -> None:
        """What becomes of the next statements of this kind."""
        self.storage.faults.setdefault(op, deque()).extend(faults)

    def insert(self, count: int = 1, event_type: str = "good", **fields: object) -> list[EventId]:
        """Insert events; their ids."""
        return [self.table.insert(event_type, **fields) for _ in range(count)]  # type: ignore[arg-type]

    def row(self, event_id: EventId) -> MemoryRow:
        """One row."""
        return self.table.rows[event_id]

    def counts(self) -> dict[str, int]:
        """How many rows are in which state."""
        return dict(Counter(str(row.status) for row in self.table.rows.values()))

    def delivered(self, event_type: str = "good") -> int:
        """How many rows of this type are DELIVERED."""
        delivered = Status.DELIVERED
        return len([1 for row in self.table.rows.values() if row.status is delivered and row.event_type == event_type])

    def end(self) -> None:
        """Cancel everything and close the loop; a relay that died fails the test."""
        died = self.task.done() and not self.task.cancelled() and self.task.exception()
        self.loop.end()
        assert not died, died
