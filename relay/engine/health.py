"""The relay's health: whether database and broker answer, what pings the database, and what makes /readyz speak.

``RelayHealth`` is one place that knows it and tells telemetry. Every statement's success or failure is reported to it
by the loop that sent it; ``ping_storage`` asks when no other statement does. The broker's side is reported by the gate.
/readyz reads it through ``relay.engine.status``.

After the database was lost, outcomes are worth more than anything else: they are settled first, then leases are
renewed, and only then may this relay reap (else it would reclaim its own events, whose outcome it knows). The health
keeps that account: ``storage_failed`` opens it, the settler and the renewer pay, the reaper waits.

A database may answer and still not do the work: its disk is full, or it rolls every claim back (a lock, a statement
timeout). A statement that was rolled back is sent again and says nothing; three claims, settles or renewals in a row
do. Such a failure stands until the same kind of statement works: a ping in between must not report that all is well.
So does the third in a row of any failure, timeouts and lost connections included, where other statements worked
meanwhile. It holds up nothing else: reaping and renewing go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from relay.core.clock import steady_seconds
from relay.core.errors import StorageBusy, StorageError, StorageRefuses, StorageUnavailable
from relay.core.storage import OutboxStorage
from relay.core.telemetry import RelayState, Telemetry
from relay.engine.waiting import Patience

logger = logging.getLogger(__name__)

_REMIND_SECONDS = 10.0
_FAILURE_STANDS = 60.0  # seconds without a statement of its kind; after that another statement's success counts again
_WORK = ("claim", "settle", "renew")
"""Statements whose failure stands until one of their kind works."""
_MOST_IN_A_ROW = 2  # statements of one kind that may be rolled back before it counts


class RelayHealth:
    """Written by the loops of one relay, read by all of them, in the event loop's thread."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = steady_seconds) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._reminded_at = float("-inf")
        self.storage_error = "not connected yet"
        """Why the database cannot be used; empty when it can."""
        self.storage_refuses = False
        """Whether the database answered the statement that failed last: no table, no right, a full disk."""
        self.broker_error = "not probed yet"
        """Why the broker cannot be used; empty when it can."""
        self.settle_owed = False
        self.renewal_owed = False
        self._stands: tuple[str, float] | None = None
        """Which kind of statement must work before the failure is over, and when one failed last."""
        self._answers = False
        """Whether the last statement was answered."""
        self._in_a_row: Counter[str] = Counter()
        self._worked_beside: set[str] = set()
        """Kinds of statements of which some failed in a row, while others worked."""
        self._reported: tuple[RelayState, str] | None = None
        self._report()

    @property
    def state(self) -> RelayState:
        """The value of ``openoutbox_relay_state``: storage outweighs broker."""
        if self.storage_error:
            return RelayState.ERROR
        return RelayState.PAUSED if self.broker_error else RelayState.ACTIVE

    @property
    def may_reap(self) -> bool:
        """Whether every outcome known before an outage is written, and every lease renewed."""
        return self.storage_answers and not (self.settle_owed or self.renewal_owed)

    @property
    def storage_answers(self) -> bool:
        """Whether the database answers, although it may refuse some of the work."""
        return not self.storage_error or self._answers

    def storage_failed(self, op: str, error: StorageError, *, tried_out: bool = False) -> None:
        """A statement could not be carried out, for a reason that lies with the database.

        One that was rolled back counts from the third in a row on, where it is a claim, settle or renewal; at once
        where that was ``tried_out`` with several rows.
        """
        self._in_a_row[op] += 1
        reason = str(error) or type(error).__name__
        if isinstance(error, StorageBusy) and not tried_out:
            if op not in _WORK or self._in_a_row[op] <= _MOST_IN_A_ROW:
                return
            reason = f"{self._in_a_row[op]} statements in a row failed: {reason}"
        elif not error.answered:
            self.settle_owed = self.renewal_owed = True
        now = self._clock()
        if not self.storage_error or now - self._reminded_at >= _REMIND_SECONDS:
            self._reminded_at = now
            logger.error("the database cannot be used: %s", reason, extra={"action": "storage_unavailable", "op": op})
        refuses = error.answered or isinstance(error, StorageRefuses)
        self._answers = refuses or not isinstance(error, StorageUnavailable)
        self.storage_refuses = self._answers
        if op in _WORK:
            alone = op in self._worked_beside and self._in_a_row[op] > _MOST_IN_A_ROW
            self._stands = (op, now) if self._answers or alone else None
        self.storage_error = reason
        self._report()

    def storage_worked(self, op: str) -> None:
        """A statement was carried out."""
        self._in_a_row[op] = 0
        self._answers = True
        self._worked_beside = {one for one in _WORK if self._in_a_row[one]}
        if self.storage_error:
            if self._stands is not None:
                failing, since = self._stands
                if op != failing and self._clock() - since < _FAILURE_STANDS:
                    return
                self._stands = None
            logger.info("the database answers", extra={"action": "storage_available"})
            self.storage_error = ""
            self._report()

    def broker_failed(self, reason: str) -> None:
        """The broker does not answer."""
        now = self._clock()
        if not self.broker_error or now - self._reminded_at >= _REMIND_SECONDS:
            self._reminded_at = now
            logger.error("the broker cannot be reached: %s", reason, extra={"action": "broker_unreachable"})
        self.broker_error = reason or "no reason given"
        self._report()

    def broker_worked(self) -> None:
        """The broker answers."""
        if self.broker_error:
            logger.info("the broker answers", extra={"action": "broker_reachable"})
            self.broker_error = ""
            self._report()

    def _report(self) -> None:
        report = (self.state, self.storage_error or self.broker_error)
        if report != self._reported:
            self._reported = report
            self._telemetry.state(*report)


async def ping_storage(storage: OutboxStorage, health: RelayHealth, interval: float) -> None:
    """Ping the database without end: often while it is away, else every ``interval`` seconds."""
    patience = Patience(first=0.2, longest=2.0)
    while True:
        try:
            await storage.ping()
        except StorageError as error:
            health.storage_failed("ping", error)
            await patience.pause()
            continue
        patience.reset()
        health.storage_worked("ping")
        await asyncio.sleep(interval)
