"""The relay's own view of itself, for the HTTP side (``relay.core.status.StatusView``)."""

from __future__ import annotations

from collections.abc import Callable

from relay.core.status import Exposition, Health, Readiness, Stats
from relay.engine.relay import Relay


class RelayStatus:
    """Answers from what the loops know; only ``stats`` may ask the database, through the sampler."""

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
        condition = self._relay.condition
        return Readiness(condition.storage_error, condition.broker_error)

    async def stats(self) -> Stats | None:
        """The backlog: read anew where that is cheap, else as last read."""
        sampler = self._relay.sampler
        await sampler.refresh()
        if sampler.latest is None:
            return None
        return Stats(
            relay_id=self._relay_id,
            state=self._relay.condition.state,
            in_flight=self._relay.inflight.events,
            backlog=sampler.latest,
            sample_age=sampler.sample_age,
        )

    def metrics(self, accept: str) -> Exposition:
        """All metrics in the format that ``accept`` asks for."""
        return self._metrics(accept)
