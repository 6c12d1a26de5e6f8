"""What the relay answers on /healthz, /readyz and /stats: ``relay.core.status.StatusView``, for ``relay.server``.

/readyz speaks for ``RelayHealth`` in ``relay.engine.health``, which the loops and the pings keep up to date.
"""

from __future__ import annotations

from collections.abc import Callable

from relay.core.status import Exposition, Health, Readiness, Stats
from relay.engine.relay import Relay


class RelayStatus:
    """Answers from what the loops know; only ``stats`` may ask the database, through the backlog sampler."""

    def __init__(self, relay: Relay, relay_id: str, metrics: Callable[[str], Exposition]) -> None:
        self._relay = relay
        self._relay_id = relay_id
        self._metrics = metrics

    def health(self) -> Health:
        """Whether every loop lives."""
        ended = self._relay.ended_loops()
        return Health(f"the {', '.join(ended)} loop has ended" if ended else "")

    def readiness(self) -> Readiness:
        """Whether storage and broker answered last."""
        health = self._relay.health
        return Readiness(health.storage_error, health.broker_error)

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
        )

    def metrics(self, accept: str) -> Exposition:
        """All metrics in the format that ``accept`` asks for."""
        return self._metrics(accept)
