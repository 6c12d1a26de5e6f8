"""Settle: write verdicts back, those of all batches that have some in one go. Step 4, the last, of an event's way.

While one write is under way the next verdicts gather, so its size follows the load. Verdicts outlive a lost
connection: they wait, and are written before anything else when the database is back.

One row that the database refuses (a constraint, a trigger) fails the whole statement. Then the round goes on with
quarters of it, until what is refused stands alone, and every other verdict is written; ``relay.core.blame`` says when
that row is to blame, and when the database. A refused row is set aside and tried again on its own after a pause, ever
longer, and in the end left to its lease. One round writes the new verdicts first, and sends a bounded number of
statements after them. So many refused rows delay nothing else: the rest is set aside, and the next round follows at
once. A row that a BEFORE trigger or a rule keeps as it was is a refused row, too.

A row that another session has locked is skipped by the statement, so that the others are written at once. It is set
aside and written together with later verdicts, after pauses that grow to a second, for as long as it is locked. Its
lease may expire meanwhile: a locked row cannot be renewed, and not be reaped either, so the verdict is written once the
row is unlocked, unless a reaper was faster.

After a statement that the database rolled back or that passed its deadline the next ones have fewer rows, down to one,
and grow again: a smaller one waits for fewer locks and ends before a statement timeout. One that was cancelled at its
deadline may have been carried out: the rows are read back first, and what is written is not written again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from relay.core.blame import Party, kept, quarters
from relay.core.errors import StorageBusy, StorageError, StorageTimeout, StorageUnavailable
from relay.core.event import EventId
from relay.core.storage import Settled
from relay.core.telemetry import EngineCounter
from relay.engine.batch import Portion
from relay.engine.context import EngineContext
from relay.engine.losses import LeaseLosses
from relay.engine.refusal import Refusals, growing_pause
from relay.engine.waiting import Patience, wait_event

_MOST_REFUSALS = 5  # tries to settle one event before it is left to its lease
_FIRST_PAUSE = 1.0  # seconds before a refused row is tried again; doubled each time
_LONGEST_PAUSE = 16.0
_LOCKED_PAUSES = (0.05, 1.0)  # seconds, the first and the longest one, before locked rows are tried again
_MOST_SPLITS = 64  # statements of one round that look for refused rows: enough for three among a thousand
_MOST_RETRIES = 8  # statements of one round that try known refused rows again
_SHORTEST_WAIT = 0.05  # seconds; rows stay set aside while their batch is being renewed, even when they are due

_ALL = 1 << 20  # rows of one statement; never reached, since less is in flight

Write = list[Portion]
"""What one statement writes."""


class Settler:
    """One loop, ``run``; the only one that calls ``settle``."""

    def __init__(self, context: EngineContext) -> None:
        self._storage = context.storage
        self._inflight = context.inflight
        self._health = context.health
        self._telemetry = context.telemetry
        self._tracer = context.tracer
        self._clock = context.clock
        self.delivered = self.failed = 0
        """Verdicts written since the start."""
        self._log = context.refused_rows
        self._refusals = Refusals("settle", context.refused_rows, context.clock)
        self._losses = LeaseLosses(context.clock, context.options.lease_timeout)
        self._most = _ALL
        """Rows of one statement."""
        self._splits: deque[Write] = deque()
        """Of this round: statements among whose rows one may be refused."""
        self._retries: deque[Write] = deque()
        """Of this round: rows that were refused before, one each."""

    async def run(self) -> None:
        """Write verdicts as they come, without end."""
        patience = Patience(longest=1.0)
        while True:
            await self._wait()
            try:
                await self._round()
                patience.reset()
            except StorageError as error:
                self._health.storage_failed("settle", error, tried_out=error.may_blame_row)
                await patience.pause()
                self._inflight.settleable.set()

    async def _wait(self) -> None:
        """Until there are new verdicts, or a row that was set aside is due.

        ``settleable`` is set by the publisher's sink, the gate, the renewer and the stop; all of them leave what they
        decided in its batch first, so an extra wake-up finds nothing, and none is missing.
        """
        due = [portion.due_at for batch in self._inflight.batches for portion in batch.aside]
        if due:
            await wait_event(self._inflight.settleable, max(min(due) - self._clock(), _SHORTEST_WAIT))
        else:
            await self._inflight.settleable.wait()

    async def _round(self) -> None:
        """Write what is decided, then what is set aside and due, as far as the bounds allow.

        From ``take_settleable`` to ``written`` the batches are marked as being written, so that no renewal changes
        their fence. The publisher's sink goes on adding verdicts to them; those are not part of this round.
        """
        verdicts, aside = self._inflight.take_settleable(self._clock(), settle_first=self._health.settle_owed)
        batches = dict.fromkeys(portion.batch for portion in (*verdicts, *aside))
        together = [*verdicts, *(portion for portion in aside if portion.locked)]
        self._splits.extend(_of_at_most(self._most, together))
        for portion in aside:
            if portion.locked:
                continue
            if portion.refusals:
                self._retries.append([portion])
            else:
                self._splits.extend(_of_at_most(self._most, [portion]))
        try:
            await self._write_up_to(self._splits, _MOST_SPLITS)
            if not self._splits:
                self._health.settle_owed = False
            await self._write_up_to(self._retries, _MOST_RETRIES)
            if not self._splits and (error := self._refusals.without_control()) is not None:
                raise error
        finally:
            self._keep_the_rest()
            for batch in batches:
                self._inflight.written(batch)

    async def _write_up_to(self, writes: deque[Write], most: int) -> None:
        for _ in range(most):
            if not writes:
                return
            # It stays in the deque while it is under way: when this task is cancelled, it is kept with the rest.
            write = writes[0] = self._without_expired(writes[0])
            parts = await self._write(write) if write else []
            writes.popleft()
            writes.extendleft(reversed(parts))  # down to one row first: the sooner the fault is known

    def _keep_the_rest(self) -> None:
        """What this round did not get to is set aside, due at once: the next round begins with it."""
        for write in (*self._splits, *self._retries):
            for portion in write:
                portion.batch.set_aside(portion, self._clock())
                self._inflight.settleable.set()
        self._splits.clear()
        self._retries.clear()

    def _without_expired(self, write: Write) -> Write:
        """An expired lease is left to the reaper, never released: another relay may be about to hold the event."""
        now = self._clock()
        left: Write = []
        for portion in write:
            expired = portion.batch.expired(portion.settlement.released, now)
            if expired:
                self._inflight.forfeit(portion.batch, expired)
            rest = portion.without(expired) if expired else portion
            if len(rest):
                left.append(rest)
        return left

    async def _write(self, write: Write) -> list[Write]:
        """One statement. Returns parts of it, to be written instead, when the database refuses a row."""
        started = self._clock()
        try:
            results = await self._storage.settle([portion.settlement for portion in write])
        except StorageError as error:
            self._measure(write, seconds=self._clock() - started, error=error)
            return await self._failed(write, error)
        self._measure(write, seconds=self._clock() - started)
        self._health.storage_worked("settle")
        self._most = min(self._most * 2, _ALL)
        for portion, settled in zip(write, results, strict=True):
            self._finish(portion, settled)
        if any(settled.total for settled in results):
            self._refusals.went_through()
        return []

    async def _failed(self, write: Write, error: StorageError) -> list[Write]:
        """Returns what is to be written instead. Raises when it is the database that failed."""
        if isinstance(error, StorageUnavailable) and not error.answered:
            # In place: the write stands in its deque, and is put back or set aside from there.
            write[:] = [portion.after_lost_reply() for portion in write]
        if isinstance(error, StorageTimeout) and error.server_answers:
            self._health.storage_failed("settle", error)
            write[:] = await self._read_back(write)
        if not write:
            return []
        if isinstance(error, StorageBusy | StorageTimeout):
            self._most = max(1, sum(map(len, write)) // 2)
        if error.may_blame_row:
            if self._refusals.statement_failed():
                self._health.storage_failed("settle", error, tried_out=True)
            return self._apart(write, error)
        if isinstance(error, StorageBusy) and sum(map(len, write)) == 1:
            return self._set_aside_busy(write[0], error)
        self._put_back()
        raise error

    async def _read_back(self, write: Write) -> Write:
        """After a statement that was cancelled, and whose COMMIT may have been carried out: what is not written."""
        try:
            held = await self._storage.held([portion.settlement for portion in write])
        except StorageError:
            return write
        left: Write = []
        for portion, event_ids in zip(write, held, strict=True):
            written = portion.without(event_ids)
            if len(written):
                self._finish(written, Settled())
            if event_ids:
                left.append(replace(portion.part(event_ids), refusals=portion.refusals))
        return left

    def _apart(self, write: Write, error: StorageError) -> list[Write]:
        """The quarters of a refused statement; a single row is set aside, or given up."""
        if len(write) > 1:
            return [list(part) for part in quarters(write)]
        [portion] = write
        if len(portion) > 1:
            return [[portion.part(event_ids)] for event_ids in quarters(portion.settlement.event_ids())]
        if self._set_refused_aside(portion, error) is Party.DATABASE:
            self._put_back()
            raise error
        return []

    def _set_refused_aside(self, portion: Portion, error: StorageError) -> Party:
        """Try one row again later, or leave it to its lease; not where it is the database that fails."""
        [event_id] = portion.settlement.event_ids()
        refused = portion.after_refusal()
        again_at = self._clock() + growing_pause(refused.refusals, _FIRST_PAUSE, _LONGEST_PAUSE)
        fault = self._refusals.failed(event_id, error, again_at)
        if fault is Party.DATABASE:  # the caller keeps it
            return fault
        if (fault is Party.ROW or error.guesses_row) and refused.refusals >= _MOST_REFUSALS:
            lease_ends = portion.batch.expires_at(event_id)
            self._done(refused)
            self._log.left_to_its_lease(event_id, error, lease_ends)
        else:
            portion.batch.set_aside(refused, again_at)
        return fault

    def _set_aside_busy(self, portion: Portion, error: StorageError) -> list[Write]:
        """One row alone was not written in time, maybe because another session has locked it: the others go first."""
        self._health.storage_failed("settle", error)
        portion.batch.set_aside(portion.to_be_written_alone(), self._clock() + _FIRST_PAUSE)
        return []

    def _put_back(self) -> None:
        """The database failed, and no row is to blame: what is not known to be refused is written together again."""
        for write in self._splits:
            for portion in write:
                portion.batch.put_back(portion)
        self._splits.clear()

    def _finish(self, portion: Portion, settled: Settled) -> None:
        """Account for verdicts that are written; those that found no row of ours came too late."""
        if settled.kept:
            portion = self._set_kept_aside(portion, settled)
        if settled.locked:
            portion = self._set_locked_aside(portion, settled.locked)
        settlement = portion.settlement
        lost = len(settlement) - settled.total
        if lost and portion.ambiguous:
            # The earlier try, whose reply was lost, was carried out: these rows are as we wanted them.
            settled = Settled(
                len(settlement.delivered), len(settlement.retried), len(settlement.buried), len(settlement.released)
            )
        elif lost:
            self._telemetry.count(EngineCounter.LEASES_LOST, lost)
            self._losses.taken(lost, portion.batch.expires_at(settlement.event_ids()[0]))
        self.delivered += settled.delivered
        self.failed += settled.retried + settled.buried
        self._telemetry.settled(settled.delivered, settled.retried + settled.buried)
        if settled.released:
            self._telemetry.count(EngineCounter.RELEASED, settled.released)
        self._done(portion)

    def _set_kept_aside(self, portion: Portion, settled: Settled) -> Portion:
        """Set aside what a trigger or a rule keeps as it was; returns the rest, which is written or lost."""
        for event_id in settled.kept:
            one = portion if len(portion) == 1 else portion.part([event_id])
            if self._set_refused_aside(one, kept("settling")) is Party.DATABASE:
                one.batch.set_aside(one.after_refusal(), self._clock() + _LONGEST_PAUSE)
            if settled.total:
                self._refusals.went_through()
        return portion.without(settled.kept)

    def _set_locked_aside(self, portion: Portion, locked: Collection[EventId]) -> Portion:
        """Set aside what another session has locked; returns the rest, which is written or lost."""
        others = portion.part([event_id for event_id in portion.settlement.event_ids() if event_id not in locked])
        later = portion.part(locked).after_lock()
        pause = growing_pause(later.locked, *_LOCKED_PAUSES)
        if pause == _LOCKED_PAUSES[-1]:
            self._log.locked(next(iter(locked)), len(locked))
        portion.batch.set_aside(later, self._clock() + pause)
        return others

    def _done(self, portion: Portion) -> None:
        if portion.refusals:
            for event_id in portion.settlement.event_ids():
                self._refusals.written(event_id)
        portion.batch.settled(portion)
        self._inflight.gone(portion.batch, len(portion))

    def _measure(self, write: Write, *, seconds: float, error: StorageError | None = None) -> None:
        ok = error is None
        if any(portion.settlement.delivered for portion in write):
            self._telemetry.storage_op("mark_delivered", ok=ok, seconds=seconds)
        if any(portion.settlement.retried or portion.settlement.buried for portion in write):
            self._telemetry.storage_op("mark_failed", ok=ok, seconds=seconds)
        if any(portion.settlement.released for portion in write):
            self._telemetry.storage_op("release", ok=ok, seconds=seconds)
        if self._tracer is not None:
            traced = ((portion.batch.trace, portion.settlement) for portion in write)
            links = [link for trace, settlement in traced if trace is not None for link in trace.links(settlement)]
            if links:
                self._tracer.settle(links, sum(map(len, write)), seconds, error)


def _of_at_most(most: int, portions: Iterable[Portion]) -> Iterator[Write]:
    """The portions as statements of at most that many rows."""
    write: Write = []
    for piece in (piece for portion in portions for piece in _pieces(most, portion)):
        if write and sum(map(len, write)) + len(piece) > most:
            yield write
            write = []
        write.append(piece)
    if write:
        yield write


def _pieces(most: int, portion: Portion) -> list[Portion]:
    if len(portion) <= most:
        return [portion]
    event_ids = portion.settlement.event_ids()
    return [portion.part(event_ids[start : start + most]) for start in range(0, len(event_ids), most)]
