"""The port to what operators replayed. The delivery log's recorder calls it; nothing of it raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from relay.core.event import EventId

if TYPE_CHECKING:
    from datetime import datetime


class ReplayRecord(Protocol):
    """The events that operators replayed."""

    async def first_replays(self, event_ids: Sequence[EventId]) -> Mapping[EventId, datetime]:
        """When each of these events was replayed for the first time, by the database's clock.

        What was never replayed is left out, and so is all of which nothing can be learned. Never raises.
        """

    async def close(self) -> None:
        """Let go of what was opened; never raises."""
