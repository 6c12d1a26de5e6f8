"""A publisher that sends events where routing says, over the publisher of one broker.

It adds names and nothing else: outcomes, order, back-pressure and reachability are the inner publisher's. Without
rules and prefix the composition (``relay.app.destinations``) leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink
from relay.core.places import Flow, Router
from relay.core.ports import Publisher
from relay.core.proofs import HeldLeases, LeasedRow, ProofReader, Proofs, Proven
from relay.engine.destination.assign import assign, restoring
from relay.engine.destination.drops import Drops


class RoutedPublisher:
    """``relay.core.ports.Publisher`` with other names of destinations."""

    def __init__(self, inner: Publisher, router: Router, drops: Drops) -> None:
        self.name = inner.name
        self.members = inner.members
        self._inner = inner
        self._router = router
        self._drops = drops

    @property
    def blocked(self) -> str:
        """As the inner publisher."""
        return self._inner.blocked

    @property
    def keeps_runs(self) -> bool:
        """As the inner publisher, where all events of a type have one destination: a run must have one, too."""
        return self._inner.keeps_runs and not self._router.by_header

    async def open(self) -> None:
        """Open the inner publisher."""
        await self._inner.open()

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event under its destination's name; what is dropped or has no name is resolved at once."""
        assignment = assign(events, self._router, self._drops)
        if assignment.resolved:
            sink(assignment.resolved)
        for sent in assignment.by_via.values():
            await self._inner.publish(sent, restoring(sink, assignment))

    async def probe(self, timeout: float) -> None:
        """Probe the broker."""
        await self._inner.probe(timeout)

    @property
    def flow_of(self) -> Callable[[OutboxEvent], Flow] | None:
        """See ``relay.core.places.FlowTeller``."""
        return self._router.flow_of if self._router.by_header else None

    def destination_of(self, event: OutboxEvent) -> str:
        """The inner publisher's, of the event under its destination's name."""
        [name] = [one.name for one in self._router.places(event).sent] or [event.event_type]
        return self._inner.destination_of(event._replace(event_type=name))

    async def probe_destination(self, destination: str, timeout: float) -> None:
        """Probe one of the inner publisher's."""
        await self._inner.probe_destination(destination, timeout)

    def take_back(self, reason: str) -> None:
        """The inner publisher's."""
        self._inner.take_back(reason)

    async def abandon(self, reason: str) -> None:
        """Forget everything unanswered."""
        await self._inner.abandon(reason)

    async def close(self) -> None:
        """Close the inner publisher."""
        await self._inner.close()

    def twin(self) -> RoutedPublisher:
        """The same rules over a twin of the inner publisher."""
        return routed(self._inner.twin(), self._router, self._drops)


class _RoutedReader(RoutedPublisher, ProofReader):
    """Over a publisher that reads proofs."""

    _inner: ProofReader  # type: ignore[assignment]  # and a Publisher

    async def keeps_proofs(self) -> bool:
        return await self._inner.keeps_proofs()

    async def end_holder(self, holder: str) -> None:
        await self._inner.end_holder(holder)

    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        return await self._inner.proven(rows)


class _RoutedProofs(_RoutedReader, Proofs):
    """Over a publisher that leaves proofs, too: a transaction holds events under the names that routing gives them."""

    _inner: Proofs  # type: ignore[assignment]  # and a Publisher

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        assignment = assign(events, self._router, self._drops)
        if assignment.resolved:
            sink(assignment.resolved)
        for sent in assignment.by_via.values():
            await self._inner.publish_held(sent, restoring(sink, assignment), holding)

    async def former_ended(self) -> bool:
        return await self._inner.former_ended()

    def beside(self, relays: Sequence[str] | None) -> None:
        self._inner.beside(relays)


def routed(inner: Publisher, router: Router, drops: Drops) -> RoutedPublisher:
    """The rules over this publisher; with the proofs that it has."""
    kind = _RoutedProofs if isinstance(inner, Proofs) else _RoutedReader
    return (kind if isinstance(inner, ProofReader) else RoutedPublisher)(inner, router, drops)
