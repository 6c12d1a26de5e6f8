"""The relay's health: whether database and broker answer, what pings the database, and what makes /readyz speak.

``RelayHealth`` is one place that knows it and tells telemetry. Every statement's success or failure is reported to it
by the loop that sent it; ``ping_storage`` asks when no other statement does. The broker's side is reported by the gate.
/readyz reads it through ``relay.engine.status``.

After the database was lost, outcomes are worth more than anything else: they are settled first, then leases are
renewed, and only then may this relay reap (else it would take back its own events, whose outcome it knows). The health
keeps that account: ``storage_failed`` opens it, the settler and the renewer pay, the reaper waits.

A database may answer and still refuse the work (its disk is full). A claim or settle that was refused so stands until
the same kind of statement works: a ping in between must not tell the operator that all is well.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from relay.core.errors import RowRefused, StorageError
from relay.core.ports import OutboxStorage
from relay.core.telemetry import RelayState, Telemetry
from relay.engine.waiting import Patience

logger = logging.getLogger(__name__)

_REMIND_SECONDS = 10.0
_REFUSAL_STANDS = 10.0  # seconds; after that another statement's success counts again
_SAYS_NO = ("42", "53", "58")  # missing table or right, disk full or out of memory, I/O: a ping works all the same


class RelayHealth:
    """Written by the loops of one relay, read by all of them, in the event loop's thread."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._reminded_at = float("-inf")
        self.storage_error = "not connected yet"
        """Why the database cannot be used; empty when it can."""
        self.broker_error = "not probed yet"
        """Why the broker cannot be used; empty when it can."""
        self.settle_owed = False
        self.renewal_owed = False
        self._refused: tuple[str, float] | None = None
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
        return not (self.storage_error or self.settle_owed or self.renewal_owed)

    def storage_failed(self, op: str, error: StorageError) -> None:
        """A statement could not be carried out, for a reason that lies with the database."""
        self.settle_owed = self.renewal_owed = True
        now = self._clock()
        if not self.storage_error or now - self._reminded_at >= _REMIND_SECONDS:
            self._reminded_at = now
            logger.error("the database cannot be used: %s", error, extra={"action": "storage_unavailable", "op": op})
        if op in ("claim", "settle"):
            refused = isinstance(error, RowRefused) or (error.sqlstate or "").startswith(_SAYS_NO)
            self._refused = (op, now) if refused else None
        self.storage_error = str(error) or type(error).__name__
        self._report()

    def storage_worked(self, op: str) -> None:
        """A statement was carried out."""
        if self.storage_error:
            if self._refused is not None:
                refused, since = self._refused
                if op != refused and self._clock() - since < _REFUSAL_STANDS:
                    return
                self._refused = None
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
