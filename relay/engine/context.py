"""What every loop of one relay works with: the outside, through its ports, and what the loops share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from relay.core.ports import Publisher
from relay.core.recorder import AttemptRecorder
from relay.core.storage import OutboxStorage
from relay.core.telemetry import Telemetry
from relay.core.tracing import Tracer
from relay.engine.away import AwayDestinations
from relay.engine.counts import VerdictCounts
from relay.engine.destination.parts import WatchedParts
from relay.engine.engine_options import EngineOptions
from relay.engine.flows import Flows
from relay.engine.health import RelayHealth
from relay.engine.inflight import InFlight
from relay.engine.refusal import RefusedRows
from relay.engine.suspects import Suspects


@dataclass(frozen=True, slots=True)
class EngineContext:
    """Made once by ``Relay`` and handed to each loop."""

    storage: OutboxStorage
    publisher: Publisher
    telemetry: Telemetry
    options: EngineOptions
    clock: Callable[[], float]
    """Seconds, monotonic: leases and pauses are measured by it."""
    recorder: AttemptRecorder | None
    """The delivery log; None when there is none."""
    health: RelayHealth
    inflight: InFlight
    suspects: Suspects
    away: AwayDestinations
    parts: WatchedParts
    """Of the publisher's destination, where it is one."""
    refused_rows: RefusedRows
    tracer: Tracer | None
    """The spans; None when there are none."""
    flows: Flows
    counts: VerdictCounts = field(default_factory=VerdictCounts)

    @classmethod
    def of(
        cls,
        storage: OutboxStorage,
        publisher: Publisher,
        telemetry: Telemetry,
        options: EngineOptions,
        clock: Callable[[], float],
        recorder: AttemptRecorder | None = None,
        tracer: Tracer | None = None,
    ) -> EngineContext:
        """The context of a relay that holds nothing yet and has connected to nothing."""
        health = RelayHealth(telemetry, clock)
        flows = Flows.of_publisher(publisher)
        inflight = InFlight(telemetry, options.max_in_flight, options.batch_bytes, flows)
        away = AwayDestinations(telemetry, options.connect_retry_interval, clock)
        return cls(
            storage,
            publisher,
            telemetry,
            options,
            clock,
            recorder,
            health,
            inflight,
            Suspects(),
            away,
            WatchedParts(publisher.name, publisher, clock, options.connect_retry_interval),
            RefusedRows(telemetry, clock),
            tracer,
            flows,
        )
