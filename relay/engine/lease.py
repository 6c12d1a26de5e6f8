"""Leases: renew those of what is in flight, and reap those that have expired.

A batch's lease is renewed a third of the lease after the last time; where the reply is lost, the storage reads back
which of the two holds (``OutboxStorage.renew``). A batch whose lease ran out by the relay's clock while the database
could not be reached is given up: the client must forget it before another relay gets it. Its rows are left to the
reaper.

A row that refuses the renewal's UPDATE (a constraint, a trigger) costs the other rows nothing: the renewal is repeated
in quarters until that row is alone. It is tried again on its own, and when its lease has expired it is let go. A row
that another session has locked keeps its lease and is tried again; no other relay can reap it while it is locked.

Reaping reclaims expired leases of any relay, each as a failed attempt (docs/reference/conformance.md#states). After
an outage of the database it waits until this relay's own outcomes are written and its leases renewed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Sequence

from relay.core.backoff import reap_latest
from relay.core.blame import MOST_ALIKE, Party, kept, quarters
from relay.core.errors import StorageError
from relay.core.event import EventId
from relay.core.proofs import ProofReader
from relay.core.storage import Reaped, Renewal
from relay.engine.batch import Batch
from relay.engine.context import EngineContext
from relay.engine.expired_leases import Finder
from relay.engine.fences import Lease
from relay.engine.losses import LeaseLosses
from relay.engine.publish import Offers
from relay.engine.refusal import Exclusions, Refusals
from relay.engine.waiting import wait_event

logger = logging.getLogger(__name__)

_MOST_RENEWALS = 64  # statements of one round for one lease, when the database refuses rows


class LeaseRenewer:
    """One loop, ``run``; the only one that calls ``renew``."""

    def __init__(self, context: EngineContext, offers: Offers) -> None:
        self._storage = context.storage
        self._inflight = context.inflight
        self._health = context.health
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._seconds = context.options.lease_timeout
        self._offers = offers
        self._refusals = Refusals("renew", context.refused_rows, context.clock)
        self._losses = LeaseLosses(context.clock, self._seconds)
        self._tick = min(self._seconds / 24, 1.0)

    async def run(self) -> None:
        """Renew what is due, without end; at once, and everything, when the database is back from an outage."""
        while True:
            await wait_event(self._inflight.renewable, self._tick)
            self._inflight.renewable.clear()
            if self._health.renewal_owed and self._health.settle_owed:
                self._inflight.settleable.set()  # outcomes come first; waking the settler is what pays that debt
            await self._round()

    async def _round(self) -> None:
        everything = self._health.renewal_owed and not self._health.settle_owed
        now = self._clock()
        complete = True
        # A copy: while a renewal is under way, claims add batches, and settled ones go.
        for batch in list(self._inflight.batches):
            if batch.writing or batch.empty:
                # The settler writes to it, under the fence that a renewal would change. It is looked at again in the
                # next round, a fraction of what is left of its lease later.
                complete = complete and not batch.writing
            elif everything or now >= batch.renew_at:
                complete = await self._renew(batch, everything=everything) and complete
        if everything and complete and self._health.storage_answers:
            self._health.renewal_owed = False

    async def _renew(self, batch: Batch, *, everything: bool) -> bool:
        """Renew one batch; returns whether the database answered for all of its leases."""
        now = self._clock()
        answered = True
        # From here to ``written`` the settler leaves this batch alone. Outcomes that come meanwhile move events from
        # one state to another inside the batch. One may leave it: the offer loop gives up what it would have to offer
        # after the lease ran out.
        batch.begin_writing()
        try:
            for lease, event_ids in batch.leases():
                if everything or now >= lease.renew_at:
                    answered = await self._renew_lease(batch, lease, event_ids) and answered
        finally:
            self._inflight.written(batch)
        await self._give_up_expired(batch, answered=answered)
        return answered

    async def _renew_lease(self, batch: Batch, lease: Lease, event_ids: Sequence[EventId]) -> bool:
        """Renew one lease, in parts where the database refuses rows; returns whether it answered for all of them."""
        parts: deque[Sequence[EventId]] = deque([event_ids])
        for _ in range(_MOST_RENEWALS):
            if not parts:
                break
            part = parts.popleft()
            sent_at = self._clock()
            try:
                renewal = await self._send(lease, part, sent_at)
            except StorageError as error:
                if not error.may_blame_row or not self._set_refused_aside(batch, lease, part, error):
                    self._health.storage_failed("renew", error, tried_out=error.may_blame_row)
                    left = [event_id for one in (part, *parts) for event_id in one]
                    # Not due before the next tick: until then the settler has its turn with this batch.
                    batch.renewal_failed(lease, left, self._clock() + self._tick / 2, refused=False)
                    return False
                if len(part) > 1:
                    parts.extendleft(reversed(quarters(part)))
            else:
                self._take(batch, lease, renewal, part, sent_at)
        if not parts and (failed := self._refusals.without_control()) is not None:
            self._health.storage_failed("renew", failed, tried_out=True)
        return not parts  # the rest keeps the old lease, which is still due: the next round goes on with it

    def _set_refused_aside(self, batch: Batch, lease: Lease, part: Sequence[EventId], error: StorageError) -> bool:
        """Renew a row that failed alone later, and alone. False when it is the database that fails."""
        if len(part) > 1:
            return True
        again_at = self._clock() + self._seconds / 6
        fault = self._refusals.failed(part[0], error, again_at)
        if fault is not Party.DATABASE:
            batch.renewal_failed(lease, part, again_at, refused=True)
        return fault is not Party.DATABASE

    async def _send(self, lease: Lease, event_ids: Sequence[EventId], sent_at: float) -> Renewal:
        ok = False
        try:
            renewal = await self._storage.renew(lease.fence, event_ids)
            ok = True
        finally:
            self._telemetry.storage_op("renew", ok=ok, seconds=self._clock() - sent_at)
        self._health.storage_worked("renew")
        return renewal

    def _take(self, batch: Batch, lease: Lease, renewal: Renewal, event_ids: Sequence[EventId], sent_at: float) -> None:
        held = set(batch.held_ids())
        event_ids = [event_id for event_id in event_ids if event_id in held]
        if renewal.held:
            self._refusals.went_through()
            renewed = [event_id for event_id in event_ids if event_id not in renewal.unchanged]
            batch.renewed(Lease.of(renewal.fence, sent_at, self._seconds), renewed)
        if renewal.unchanged:
            batch.renewal_failed(lease, renewal.unchanged, self._clock() + self._tick, refused=False)
        known = renewal.held | renewal.unchanged
        lost = [event_id for event_id in event_ids if event_id not in known]
        if lost:
            if not self._losses.taken(len(lost), lease.expires_at):
                logger.warning("lost the lease of %d events", len(lost), extra={"action": "lease_lost"})
            self._inflight.forfeit(batch, lost)

    async def _give_up_expired(self, batch: Batch, *, answered: bool) -> None:
        """Let go of events whose lease ran out, before another relay claims them."""
        now = self._clock()
        unrenewable = batch.expired_unrenewable(now)
        if unrenewable:
            self._inflight.forfeit(batch, unrenewable)
        if not answered and batch.expired_offered(now):
            await self._offers.abandon("the lease ran out while the database could not be reached")


class LeaseReaper:
    """One loop, ``run``; the only one that calls ``reap``."""

    def __init__(self, context: EngineContext) -> None:
        publisher = context.publisher
        self._finder = Finder(context, publisher) if isinstance(publisher, ProofReader) else None
        self._reaps = self._finder or context.storage
        self._health = context.health
        self._telemetry = context.telemetry
        self._counts = context.counts
        self._clock = context.clock
        self._most = context.options.reap_batch_size
        self._limit = self._most
        """Most leases of the next statement: less than ``_most`` after the database refused a row."""
        self._excluded = Exclusions("reap", context.refused_rows, context.clock)
        self._inflight = context.inflight
        self._interval = 0.7 * reap_latest(context.options.lease_timeout)

    async def begin(self) -> None:
        """Before the first claim."""
        if self._finder is not None:
            await self._finder.begin()

    async def run(self) -> None:
        """Reap, wait, without end. It looks more often than it must."""
        while True:
            interval = self._interval
            if self._health.may_reap:
                await self._reap_all()
            if not self._health.may_reap or (self._finder is not None and self._finder.in_haste):
                interval = min(interval, 0.5)
            await asyncio.sleep(interval * (0.9 + 0.1 * random.random()))

    async def _reap_all(self) -> None:
        """Reap without pause until nothing is left."""
        total = Reaped(0, 0)
        errors: list[StorageError] = []
        try:
            while (reaped := await self._reap()) is not None:
                total = Reaped(total.retried + reaped.retried, total.buried + reaped.buried)
                self._excluded.passed(reaped.refused)
                errors += reaped.refused[-MOST_ALIKE:]
                if reaped.more:
                    continue
                if reaped.kept:
                    error = kept("reaping")
                    error.event_id = reaped.kept_row
                    if self._narrow(error):
                        continue
                    return
                limit, self._limit = self._limit, min(self._limit * 2, self._most)
                if reaped.total < limit:
                    self._excluded.nothing_left()
                    if len(errors) >= MOST_ALIKE and not total.total:
                        self._health.storage_failed("reap", errors[-1], tried_out=True)
                    return
        finally:
            if total.total:
                logger.warning(
                    "reclaimed %d expired leases; %d of their events are dead now",
                    total.total,
                    total.buried,
                    extra={"action": "leases_reaped", "retried": total.retried, "dead": total.buried},
                )

    async def _reap(self) -> Reaped | None:
        """One statement, repeated with half of the limit while the database refuses a row; None when it failed.

        Events whose outcome waits for a locked row are left out: the settler writes them once they are unlocked.
        """
        while True:
            started = self._clock()
            ok = False
            try:
                reaped = await self._reaps.reap(self._limit, self._excluded.ids() + self._inflight.locked_ids())
                ok = True
            except StorageError as error:
                if error.may_blame_row and self._narrow(error):
                    continue
                self._health.storage_failed("reap", error)
                return None
            finally:
                self._telemetry.storage_op("reap", ok=ok, seconds=self._clock() - started)
            self._health.storage_worked("reap")
            if reaped.total:
                self._telemetry.reaped(reaped.retried, reaped.buried)
                self._counts.failed("", reaped.total, dead=reaped.buried)
                self._excluded.went_through()
            return reaped

    def _narrow(self, error: StorageError) -> bool:
        """Reap less, until the error says which row failed alone; then leave that one out."""
        if error.event_id is None and self._limit > 1:
            self._limit //= 2  # reaps what comes before the refused row
            return True
        return self._excluded.add(error)
