"""The answers of /healthz, /readyz and /stats: implements ``relay.core.status.StatusView`` for ``relay.server``.

/readyz shows ``RelayHealth`` of ``relay.engine.health``, which the loops and the pings keep up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from relay.core.destination import DestinationCondition
from relay.core.status import Exposition, Health, Readiness, Stats
from relay.engine.relay import Relay


class RelayStatus:
    """Answers from memory; only ``stats`` may query the database, through the backlog sampler.

    ``degraded`` returns the parts outside the engine that fail without stopping the relay, by name, with the reason;
    ``destinations`` how each destination is.
    """

    def __init__(
        self,
        relay: Relay,
        relay_id: str,
        metrics: Callable[[str], Exposition],
        degraded: Callable[[], Mapping[str, str]] = dict,
        destinations: Callable[[], Mapping[str, DestinationCondition]] = dict,
    ) -> None:
        self._relay = relay
        self._relay_id = relay_id
        self._metrics = metrics
        self._degraded = degraded
        self._destinations = destinations

    def health(self) -> Health:
        """Whether every loop is running."""
        ended = self._relay.ended_loops()
        return Health(f"the {', '.join(ended)} loop has ended" if ended else "")

    def beside(self) -> dict[str, str]:
        """What is beside the way of an event and does not work, by name, and why; deliveries go on."""
        return {**self._relay.degraded(), **self._degraded()}

    def readiness(self) -> Readiness:
        """Whether storage and broker answered their last probes."""
        health = self._relay.health
        degraded = {**self._relay.troubles(), **self.beside()}
        single = self._relay.destination
        if single.reason:  # which ``broker`` says
            degraded.pop(single.title, None)
        return Readiness(
            health.storage_error,
            health.broker_error,
            {
                **degraded,
                **self._relay.away.degraded(degraded),
                **self._relay.refused_rows.degraded(),
            },
            storage_refuses=health.storage_refuses,
            pauses=self._relay.pauses.sentences(),
        )

    async def stats(self) -> Stats | None:
        """The backlog: read again where that is cheap, else as last read."""
        backlog = self._relay.backlog
        await backlog.refresh()
        if backlog.latest is None:
            return None
        return Stats(
            relay_id=self._relay_id,
            state=self._relay.health.state,
            in_flight=self._relay.inflight.events,
            backlog=backlog.latest,
            sample_age=backlog.sample_age,
            pauses=self._relay.pauses.sentences(),
            destinations=self._destinations(),
        )

    def metrics(self, accept: str) -> Exposition:
        """All metrics in the format that ``accept`` asks for."""
        return self._metrics(accept)
