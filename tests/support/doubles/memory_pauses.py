"""The pauses of an outbox in memory."""

from __future__ import annotations

from collections.abc import Sequence

from relay.core.pause import Pause
from tests.support.doubles.memory_storage import MemoryOutbox


class MemoryPauses:
    """The pauses of a table, obeyed by one of its outboxes. ``fail_with`` makes the next reads raise it."""

    def __init__(self, outbox: MemoryOutbox) -> None:
        self._outbox = outbox
        self.fail_with: Exception | None = None

    async def read(self) -> Sequence[Pause]:
        """The pauses in force."""
        if self.fail_with is not None:
            raise self.fail_with
        self._outbox.obeyed = list(self._outbox.table.pauses)
        return self._outbox.obeyed
