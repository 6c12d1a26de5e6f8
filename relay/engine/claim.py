"""Claim: take due rows from the table and hand them on, batch by batch. Step 1 of an event's way.

    claim ──▶ publish ──▶ decide ──▶ settle

Two loops with a queue of one between them, and a third in order per key: while one batch is being handed to the
publisher, the next is being claimed, and the ones before are being acknowledged and settled. A full claim is followed
by the next at once; a partial one, and empty ones as long as events came a moment ago, after a millisecond or a few;
later ones ever later, up to the poll interval, or at once after a wake-up (``Polling``).

An event that lost a lease and is on its last attempt travels alone: what is in flight is finished first, and nothing
is claimed until it is settled. Otherwise an event that kills its relays would take its neighbours to DEAD with it. That
holds for a second: events whose answers take longer are not waited for, and an event that has not killed its relay in
that time is taken for a slow one. An event that failed for another reason endangers no neighbour, and travels with
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from relay.core.allowed import refused_type
from relay.core.errors import StorageBusy, StorageError, StorageTimeout
from relay.core.event import LEASE_EXPIRED, Claim, OutboxEvent
from relay.core.limits import limited, may_exceed, refused
from relay.core.places import Apart, Flow
from relay.core.remembered import remembered
from relay.engine.away import NONE_HELD
from relay.engine.batch import Batch
from relay.engine.context import EngineContext
from relay.engine.fences import Lease
from relay.engine.gate import Gate
from relay.engine.order import Order
from relay.engine.publish import Offers
from relay.engine.refusal import Exclusions
from relay.engine.room import ClaimRoom, Room
from relay.engine.suspects import CONNECTION_CUT
from relay.engine.waiting import Patience, Polling, WakeUpBudget, wait_event


class Claimer:
    """Moves rows from the table to the publisher: ``claim_loop``, ``offer_loop``, and in order ``follow_loop``."""

    def __init__(self, context: EngineContext, gate: Gate, offers: Offers) -> None:
        self._context = context
        self._storage = context.storage
        self._inflight = context.inflight
        self._suspects = context.suspects
        self._health = context.health
        self._telemetry = context.telemetry
        self._tracer = context.tracer
        self._options = context.options
        self._clock = context.clock
        self._gate = gate
        self._offers = offers
        self._claimed: asyncio.Queue[Batch] = asyncio.Queue(maxsize=1)
        self._stopping = asyncio.Event()
        self._polling = Polling(context.options.poll_interval)
        self._wake_ups = WakeUpBudget()
        allowed = context.options.allowed_types
        self._refused_type = None if allowed is None else remembered(partial(refused_type, patterns=allowed))
        self._limit = context.options.batch_size
        """Most events of the next claim: half as many after one that was rolled back, timed out or met a refused row,
        twice as many after a good one."""
        self._excluded = Exclusions("claim", context.refused_rows, context.clock, context.storage.pass_over)
        self._away = context.away
        self._left_out = NONE_HELD
        """What the storage was last told to leave out."""
        self._rooms = ClaimRoom(context.options, context.inflight, gate.each, context.clock)
        self._next_within = float("inf")
        """Seconds from the last claim on after which rows are tried again that claims have gone past."""
        self.claiming = False
        """A claim is under way: its reply may bring events."""

    def stop(self) -> None:
        """Claim no more. A claim under way is still waited for by its loop, and its events offered or released."""
        self._stopping.set()
        self._inflight.claimable.set()

    def wake(self) -> None:
        """There may be something to claim. Called by the wake-up loop, at any moment of the claim loop.

        During a claim or a wait for room it is remembered: ``claimable`` stays set until the next rest, which it ends.
        """
        now = self._clock()
        if self._wake_ups.hear(now):
            if self._wake_ups.is_plenty:
                self._polling.expect_events(now)
            self._inflight.claimable.set()

    async def claim_loop(self) -> None:
        """Claim while there is something to claim, room for it, and a broker to offer it to."""
        patience = Patience()
        while not self._stopping.is_set():
            if (room := await self._room_for_claim()) is None:
                continue
            began = self._clock()
            try:
                events = await self._claim(room)
            except StorageError as error:
                if room.looks_past:
                    self._rooms.looked_past(self._clock() - began, 0)
                    if isinstance(error, StorageTimeout):  # there was much to look past: the others go on
                        continue
                await self._failed(error, room, patience)
                continue
            patience.reset()
            took = self._clock() - began
            if room.looks_past:
                self._rooms.looked_past(took, events)
            if events or not room.looks_past:
                await self._rest(events, took)
        # The claiming is over, but a loop that returns counts as dead: wait until it is cancelled.
        await asyncio.Event().wait()

    async def _failed(self, error: StorageError, room: Room, patience: Patience) -> None:
        """A claim failed: find out whether it was a row, else wait before the next one."""
        if error.may_blame_row and self._narrow(error):
            return
        if isinstance(error, StorageBusy | StorageTimeout):
            self._limit = max(1, self._limit // 2)  # waits for fewer locks, and takes less time
        tried_out = error.may_blame_row and self._limit == 1
        if tried_out and await self._control_goes_through(room):
            return
        self._health.storage_failed("claim", error, tried_out=tried_out)
        if tried_out:  # other rows are tried next
            await asyncio.sleep(self._options.poll_interval)
        else:
            await patience.pause()

    async def offer_loop(self) -> None:
        """Offer each claimed batch, or release it when the gate closed meanwhile.

        The gate may close at any ``await``, the one inside ``offer`` included. Its ``close`` abandons, which releases
        every batch, those in the queue included; so a batch that comes here late is empty, or is released here.
        """
        while True:
            batch = await self._claimed.get()
            # Released or lost meanwhile, it endangers nothing, and what was claimed since is behind it.
            while batch.last_chance and batch.offered and self._inflight.others_unfinished(batch, self._clock()):
                self._inflight.release_suspects(but_of=batch)
                self._inflight.changed.clear()
                await wait_event(self._inflight.changed, 0.05)
            if self._gate.is_open:
                # Known suspects are added after the others: ``offer`` takes every event that is ``offered``.
                known = self._isolate_known(batch, list(batch.offered.values()))
                await self._offers.offer(batch)
                self._suspects.add_known(batch, known)
            else:
                self._inflight.release(batch)

    async def follow_loop(self) -> None:
        """In order per key: offer the next event of each key whose last one was acknowledged.

        While the gate is closed they stay as they are: the gate's ``close`` releases them.
        """
        while True:
            await self._inflight.following.wait()
            for batch, events in self._inflight.take_followers().items():
                if self._gate.is_open:
                    self._suspects.add_known(batch, self._isolate_known(batch, events))
                    await self._offers.follow(batch, events)

    @staticmethod
    def _isolate_known(batch: Batch, events: Sequence[OutboxEvent]) -> list[OutboxEvent]:
        """Make suspects of those that were cut off alone before, and return them."""
        known = [event for event in events if event.last_code == CONNECTION_CUT and event.event_id in batch.offered]
        batch.suspect(known)
        return known

    def _narrow(self, error: StorageError) -> bool:
        """Claim less, until the error says which row failed alone; then leave that one out, and try the next.

        False when neither helps: then it is the database.
        """
        lasts = self._excluded.narrowed()
        if lasts or isinstance(error, StorageTimeout):
            self._health.storage_failed("claim", error, tried_out=lasts)
        if error.event_id is None and self._limit > 1:
            self._limit //= 2  # claims what comes before the refused row
            return True
        return self._excluded.add(error)

    async def _room_for_claim(self) -> Room | None:
        """Wait for the gate and for room; None when the wait ended without both.

        The gate may close again between this and the claim's reply: then the offer loop releases what was claimed.
        """
        if not self._gate.is_open:
            opened = asyncio.ensure_future(self._gate.wait_open())
            stopped = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait({opened, stopped}, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            stopped.cancel()
            return None
        room = None if self._inflight.careful(self._clock()) else self._rooms.find()
        if room is None:
            # Cleared and waited for without an await in between, so no change can be missed. The offer loop and the
            # stop clear it too, and a change may be lost that way; the time limit bounds the delay.
            self._inflight.changed.clear()
            await wait_event(self._inflight.changed, self._rooms.look_again)
        return room

    async def _control_goes_through(self, room: Room) -> bool:
        """All rows have failed that come next: whether one from elsewhere in the queue goes through."""
        try:
            return await self._claim(room, control=True) != 0
        except StorageError:
            return False

    async def _claim(self, room: Room, *, control: bool = False) -> int:
        """One claim; returns how many events it brought, or -1 when the next one may bring more at once."""
        limit = 1 if control else min(room.places, self._limit)
        self._leave_out_away(room.without)
        without = [one for one in room.without if isinstance(one, str)]
        sent_at = self._clock()
        self.claiming = True
        # Until the reply says more: a batch that is settled meanwhile may free keys that the claim sees as held.
        self._inflight.rows_wait = self._options.in_order
        ok = False
        try:
            claim = await self._storage.claim(limit, room.size, self._excluded.ids(), without, control=control)
            ok = True
            if control and claim.fence is None:
                return 0
            self._judge(claim)
            self._next_within = claim.rest
            self._limit = min(self._limit * 2, self._options.batch_size)
            self._inflight.rows_wait = claim.waiting
            await self._accept(claim, sent_at)
        finally:
            # The stop waits for this: a claim whose reply is not in yet must not be missed by it.
            self.claiming = False
            if not ok:
                self._telemetry.storage_op("claim", ok=False, seconds=self._clock() - sent_at)
        more = len(claim.events) >= limit or (claim.events and claim.waiting)
        return -1 if more else len(claim.events)

    def _judge(self, claim: Claim) -> None:
        """A claim that brings events is the control of those that failed; an empty one has none."""
        self._excluded.passed(claim.refused)
        if claim.fence is not None:
            self._excluded.went_through()
        elif (error := self._excluded.nothing_left()) is not None:
            self._health.storage_failed("claim", error, tried_out=True)
            return
        self._health.storage_worked("claim")

    def _leave_out_away(self, slow: Sequence[Flow]) -> None:
        """Leave out the events whose destinations do not answer, but for a claim now and then that tries them.

        In order per key those that are ``slow``, too: they hold up their keys, as paused ones do. Without order those
        of them that a header sends to one destination: what a single claim leaves out are types.
        """
        away = self._away.held() if self._away else NONE_HELD
        if left_out := [one for one in slow if self._options.in_order or isinstance(one, Apart)]:
            away = away._replace(flows=tuple(sorted({*away.flows, *left_out}, key=str)))
        if away != self._left_out:
            self._left_out = away
            self._storage.leave_out(away.flows, away.in_part)

    async def _accept(self, claim: Claim, sent_at: float) -> None:
        """Count the batch first, then wait for the offer loop: from here on settler and renewer look after it."""
        seconds = self._clock() - sent_at
        self._telemetry.storage_op("claim", ok=True, seconds=seconds)
        self._telemetry.claimed(len(claim.events))
        if self._away:
            self._away.tried(self._context.flows.of_all(claim.events))
        if claim.fence is not None:
            events = await self._limited(claim.events)
            may_kill = len(events) == 1 and self._may_kill(events[0])
            batch = Batch(
                Lease.of(claim.fence, sent_at, self._options.lease_timeout),
                events,
                sent_at,
                last_chance=may_kill,
                order=self._order(),
                recorder=self._context.recorder,
                unread=claim.unread,
                trace=None if self._tracer is None else self._tracer.claim(events, seconds),
            )
            self._inflight.add(batch)
            if claim.unread:
                self._inflight.decided(batch)
            await self._claimed.put(batch)

    async def _limited(self, events: list[OutboxEvent]) -> list[OutboxEvent]:
        """The events, with those that no broker gets as such (``relay.core.limits``)."""
        for place in may_exceed(events):
            events[place] = limited(events[place])
            await asyncio.sleep(0)  # a look at ten thousand headers takes milliseconds
        if self._refused_type is not None:
            for place, event in enumerate(events):
                if (refusal := self._refused_type(event.event_type)) is not None and type(event) is OutboxEvent:
                    events[place] = refused(event, refusal)
        return events

    def _order(self) -> Order:
        if not self._options.in_order:
            return Order.NONE
        return Order.RUNS if self._context.publisher.keeps_runs else Order.SINGLES

    def _may_kill(self, event: OutboxEvent) -> bool:
        """Whether its leases kept expiring until one attempt is left: it may be what kills relays."""
        return event.last_code == LEASE_EXPIRED and self._options.retry.exhausted(event.attempts + 1)

    async def _rest(self, events: int, took: float) -> None:
        """The pause that follows a claim which ``took`` so long: none when the next one may bring more at once."""
        now = self._clock()
        self._wake_ups.claimed(events, now)
        if events < 0:
            self._polling.expect_events(now)
            return
        full = [waiting.full_for for waiting in self._rooms.waiting() if waiting.full_for]
        rest = min(self._polling.rest(events, took, now), self._next_within, *full)
        if await wait_event(self._inflight.claimable, rest):
            self._inflight.claimable.clear()
