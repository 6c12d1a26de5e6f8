"""Finder: what the holder of an expired lease had published before it was lost is settled, the rest is reaped.

For publishers that can read proofs (``relay.core.proofs``); docs/design/exactly-once.md says why it takes these steps
in this order. It stands in the place of the storage's own ``reap``. Where there may be proofs it reaps nothing that it
has not asked about: rows are settled and reaped under exactly the fence that was asked about, so that one which was
renewed meanwhile stays as it is.

What a relay that leaves proofs finds under its own RELAY_ID before its first claim is of its former life, which its
publisher ends at the start: that is settled and reaped at once, and no lease is waited for.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, cast

from relay.core.blame import quarters
from relay.core.errors import BrokerUnreachable, StorageError
from relay.core.event import EventId, Fence
from relay.core.proofs import AskedStorage, ExpiredLeases, LeasedRow, ProofReader, Proofs
from relay.core.storage import Reaped, Settlement
from relay.engine.context import EngineContext

logger = logging.getLogger(__name__)

_NOTHING = Reaped(0, 0)


class _Ended(NamedTuple):
    """When a holder was ended: it commits nothing that it had claimed before."""

    seen_at: datetime
    """By the database's clock, before the holder was ended."""
    at: float


class Finder:
    """Called by the reaper alone."""

    def __init__(self, context: EngineContext, proofs: ProofReader) -> None:
        self._storage = context.storage
        self._asked = cast("AskedStorage", context.storage)  # the composition gives proofs with such a storage alone
        self._proofs = proofs
        self._health = context.health
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._lease = context.options.lease_timeout
        self._ended: dict[str, _Ended] = {}
        self._first = True
        """The next look begins a round over all expired leases."""
        self._unread = ""
        """Why some of what has expired waits; empty while nothing does."""
        self._not_ended: dict[str, str] = {}
        """Holders that could not be ended in this round, and why."""
        self._former: list[LeasedRow] = []
        """What this relay's former life has left."""
        self._former_until = float("-inf")
        """When that has expired."""

    async def begin(self) -> None:
        """Before the first claim."""
        if isinstance(self._proofs, Proofs):
            self._former_until = self._clock() + self._lease
            with suppress(StorageError):  # else it expires
                self._former = await self._asked.own_leases()

    @property
    def in_haste(self) -> bool:
        """Whether something waits for the end of this relay's former life, and not yet for its lease."""
        return bool(self._former) and self._clock() <= self._former_until

    async def reap(self, limit: int, excluded: Sequence[EventId] = ()) -> Reaped:
        """As ``OutboxStorage.reap``, some of what has expired; nothing while proofs cannot be read."""
        try:
            if await self._proofs.keeps_proofs():
                return await self._reap_former(limit) or await self._reap_expired(limit, excluded)
        except BrokerUnreachable as error:
            self._first = True
            self._say(str(error))
            return _NOTHING
        self._say("")
        return await self._storage.reap(limit, excluded)

    async def _reap_expired(self, limit: int, excluded: Sequence[EventId]) -> Reaped:
        expired = await self._asked.expired(limit, excluded, first=self._first)
        if self._first:
            self._not_ended.clear()
        self._first = not expired.rows
        if expired.seen_at is None:
            self._say(next(iter(self._not_ended.values()), ""))
            return await self._asked.reap_exactly((), {})
        rows, acknowledged = await self._unsettled(expired, expired.seen_at)
        reaped = await self._asked.reap_exactly(rows, acknowledged) if rows else _NOTHING
        return reaped._replace(kept=0, more=True)

    async def _reap_former(self, limit: int) -> Reaped | None:
        """Some of what this relay's former life has left; None where that may still commit something."""
        if not (isinstance(self._proofs, Proofs) and self.in_haste and await self._proofs.former_ended()):
            return None
        asked = self._former[:limit]
        rows, acknowledged = await self._settle_proven(asked)
        reaped = await self._asked.reap_exactly(rows, acknowledged, former=True) if rows else _NOTHING
        del self._former[: len(asked)]
        return reaped._replace(kept=0, more=True)

    def _say(self, unread: str) -> None:
        """Why expired leases wait, in the relay's state."""
        if unread:
            self._health.broker_failed(f"expired leases wait until their proofs can be read: {unread}")
        elif self._unread:
            self._health.broker_worked()
        self._unread = unread

    async def _unsettled(self, expired: ExpiredLeases, seen_at: datetime) -> tuple[list[LeasedRow], dict[EventId, str]]:
        """Settle those with a proof of the event; returns the others, and of which a destination is proven to have it.

        What cannot be asked about yet is in neither.
        """
        by_holder: dict[str, list[LeasedRow]] = {}
        for row in expired.rows:
            by_holder.setdefault(row.holder, []).append(row)
        asked = [
            row for holder, rows in by_holder.items() if await self._has_ended(holder, rows, seen_at) for row in rows
        ]
        return await self._settle_proven(asked)

    async def _settle_proven(self, asked: Sequence[LeasedRow]) -> tuple[list[LeasedRow], dict[EventId, str]]:
        """As ``_unsettled``, of rows whose holders have been ended."""
        proven = await self._proofs.proven(asked) if asked else {}
        await self._settle([row for row in asked if proven.get(row) == ""])
        rest = [row for row in asked if proven.get(row) != ""]
        acknowledged = {row.event_id: proven[row] for row in rest if row in proven}
        _say_proven_in_part(acknowledged.values())
        return rest, acknowledged

    async def _has_ended(self, holder: str, rows: Sequence[LeasedRow], seen_at: datetime) -> bool:
        """End the holder, at most once a lease; false where these rows have to wait for that."""
        now = self._clock()
        self._ended = {one: ended for one, ended in self._ended.items() if now - ended.at < self._lease}
        if not holder:
            return True  # no relay has claimed it
        if (ended := self._ended.get(holder)) is not None:
            return all(row.fence < ended.seen_at for row in rows)
        if holder in self._not_ended:
            return False
        try:
            await self._proofs.end_holder(holder)
        except BrokerUnreachable as error:
            self._not_ended[holder] = str(error)
            return False
        self._ended[holder] = _Ended(seen_at, now)
        return True

    async def _settle(self, proven: Sequence[LeasedRow]) -> None:
        """Settle as DELIVERED; a row that the database refuses stays as it is, and is never reaped."""
        writes = deque([list(proven)] if proven else [])
        while writes:
            rows = writes.popleft()
            by_fence: dict[tuple[str, Fence], list[EventId]] = {}
            for holder, fence, event_id in rows:
                by_fence.setdefault((holder, fence), []).append(event_id)
            settlements = [Settlement(fence, ids, holder=holder) for (holder, fence), ids in by_fence.items()]
            try:
                settled = sum(one.delivered for one in await self._storage.settle(settlements))
            except StorageError as error:
                if not error.may_blame_row:
                    raise
                writes.extendleft(list(part) for part in quarters(rows) if len(rows) > 1)
                continue
            self._telemetry.settled(settled, 0)
            logger.warning(
                "settled %d events of expired leases whose delivery is proven",
                settled,
                extra={"action": "leases_proven", "events": settled},
            )


def _say_proven_in_part(destinations: Iterable[str]) -> None:
    """Events of expired leases that one of several destinations has: they go to the others alone."""
    for destination, events in Counter(destinations).items():
        logger.warning(
            "%d events of expired leases are proven to be with destination %s: they go to their others alone",
            events,
            destination,
            extra={"action": "leases_proven", "events": events, "destination": destination},
        )
