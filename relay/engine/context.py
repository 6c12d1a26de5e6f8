"""What every loop of one relay works with: the outside, through its ports, and what the loops share."""

from __future__ import annotations

from collections.abc import Callable

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


class EngineContext:
    """Made once by ``Relay`` and handed to each loop. Making it connects to nothing."""

    def __init__(
        self,
        storage: OutboxStorage,
        publisher: Publisher,
        telemetry: Telemetry,
        options: EngineOptions,
        clock: Callable[[], float],
        recorder: AttemptRecorder | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.storage = storage
        self.publisher = publisher
        self.telemetry = telemetry
        self.options = options
        self.clock = clock
        """Seconds, monotonic: leases and pauses are measured by it."""
        self.recorder = recorder
        """The delivery log; None when there is none."""
        self.tracer = tracer
        """The spans; None when there are none."""
        self.health = RelayHealth(telemetry, clock)
        self.flows = Flows.of_publisher(publisher)
        self.inflight = InFlight(telemetry, options.max_in_flight, options.batch_bytes, self.flows)
        self.suspects = Suspects()
        self.away = AwayDestinations(telemetry, options.connect_retry_interval, clock)
        self.parts = WatchedParts(publisher.name, publisher, clock, options.connect_retry_interval)
        """Of the publisher's destination, where it is one."""
        self.refused_rows = RefusedRows(telemetry, clock)
        self.counts = VerdictCounts()
