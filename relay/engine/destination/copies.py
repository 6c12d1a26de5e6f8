"""The leases of the copies that one of several destinations was offered (``relay.core.proofs``).

A destination lets go of what it was offered while another one may still work on the same event. A copy that it has let
go is in no transaction that begins later: its outcome is known, and the event may be offered again. One that is in a
transaction cannot be let go: its outcome comes when it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from relay.core.event import EventId, OutboxEvent
from relay.core.proofs import Begun, HeldLeases


class CopyLeases:
    """``relay.core.proofs.HeldLeases`` of one offer."""

    def __init__(self, leases: HeldLeases, is_open: Callable[[OutboxEvent], bool]) -> None:
        """``is_open`` says whether the destination has not let go of a copy."""
        self._leases = leases
        self._is_open = is_open
        self._begun: set[EventId] = set()

    def has_begun(self, event: OutboxEvent) -> bool:
        """Whether it is in a transaction that may be committed."""
        return event.event_id in self._begun

    async def begin(
        self,
        events: Sequence[OutboxEvent],
        since: float,
        seconds: float,
        is_held: Callable[[OutboxEvent], bool] = lambda _: True,
    ) -> list[Begun]:
        """See ``HeldLeases``."""
        begun = await self._leases.begin(events, since, seconds, lambda event: self._is_open(event) and is_held(event))
        self._begun.update(event.event_id for one in begun for event in one.events)
        return begun

    def end(self, event_ids: Iterable[EventId]) -> None:
        """See ``HeldLeases``."""
        ended = self._begun.intersection(event_ids)
        self._begun -= ended
        self._leases.end(ended)
