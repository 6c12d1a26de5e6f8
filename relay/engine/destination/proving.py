"""Several destinations of which some have proofs: exactly once for those, at least once for the others.

A proof speaks for the destination that it was left at. Of an event for several it is one copy's: the finder of its
expired lease writes that destination down and has the event sent to the others (``relay.engine.expired_leases``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink
from relay.core.places import Router
from relay.core.ports import Publisher
from relay.core.proofs import HeldLeases, LeasedRow, ProofReader, Proofs, Proven
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.pace import TokenBucket
from relay.engine.destination.several import NO_PACES, SeveralPublishers


class _SeveralReaders(SeveralPublishers, ProofReader):
    """Some of them can read proofs."""

    _keeping: Sequence[ProofReader] = ()
    """Those where there may be some."""

    async def keeps_proofs(self) -> bool:
        """Whether one of them does."""
        publishers = (member.publisher for member in self.members.values())
        readers = [one for one in publishers if isinstance(one, ProofReader)]
        kept = await asyncio.gather(*(one.keeps_proofs() for one in readers))
        self._keeping = [one for one, keeps in zip(readers, kept, strict=True) if keeps]
        return bool(self._keeping)

    async def end_holder(self, holder: str) -> None:
        """At each of them."""
        await asyncio.gather(*(one.end_holder(holder) for one in self._keeping))

    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        """By any of them."""
        proven: dict[LeasedRow, str] = {}
        for known in await asyncio.gather(*(one.proven(rows) for one in self._keeping)):
            proven |= known
        return proven


class _SeveralProofs(_SeveralReaders, Proofs):
    """One of them leaves proofs, too."""

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        """As ``publish``."""
        self._offer(events, sink, holding)

    @property
    def _leaving(self) -> list[Proofs]:
        return [one.publisher for one in self.members.values() if isinstance(one.publisher, Proofs)]

    async def former_ended(self) -> bool:
        """See ``Proofs``. The others get an event at least once."""
        return all([await one.former_ended() for one in self._leaving])

    def beside(self, relays: Sequence[str] | None) -> None:
        """See ``Proofs``."""
        for one in self._leaving:
            one.beside(relays)


def several(
    publishers: Mapping[str, Publisher],
    router: Router,
    drops: Drops,
    times: Times,
    paces: Mapping[str, TokenBucket] = NO_PACES,
) -> SeveralPublishers:
    """The publisher over these, by name; with the proofs that they have."""
    reads = any(isinstance(one, ProofReader) for one in publishers.values())
    leaves = any(isinstance(one, Proofs) for one in publishers.values())
    kind = _SeveralProofs if leaves else _SeveralReaders if reads else SeveralPublishers
    return kind(publishers, router, drops, times, paces)
