"""How the relay is: one place that knows whether storage and broker answer, and tells telemetry.

After the database was lost, outcomes are worth more than anything else: they are settled first, then leases are
renewed, and only then may this relay reap (else it would take back its own events, whose outcome it knows). The
condition keeps that account: ``storage_failed`` opens it, the settler and the renewer pay, the reaper waits.

A database may answer and still refuse the work (its disk is full). A claim or settle that was refused so stands until
the same kind of statement works: a ping in between must not tell the operator that all is well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from relay.core.errors import StorageError
from relay.core.telemetry import RelayState, Telemetry

logger = logging.getLogger(__name__)

_REMIND_SECONDS = 10.0
_REFUSAL_STANDS = 10.0  # seconds; after that another statement's success counts again
_SAYS_NO = ("42", "53", "58")  # missing table or right, disk full or out of memory, I/O: a ping works all the same


class Condition:
    """Owned by the loops of one relay; read by anyone in the event loop's thread."""

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
        self._told: tuple[RelayState, str] | None = None
        self._tell()

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
            self._refused = (op, now) if (error.sqlstate or "").startswith(_SAYS_NO) else None
        self.storage_error = str(error) or type(error).__name__
        self._tell()

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
            self._tell()

    def broker_failed(self, reason: str) -> None:
        """The broker does not answer."""
        now = self._clock()
        if not self.broker_error or now - self._reminded_at >= _REMIND_SECONDS:
            self._reminded_at = now
            logger.error("the broker cannot be reached: %s", reason, extra={"action": "broker_unreachable"})
        self.broker_error = reason or "no reason given"
        self._tell()

    def broker_worked(self) -> None:
        """The broker answers."""
        if self.broker_error:
            logger.info("the broker answers", extra={"action": "broker_reachable"})
            self.broker_error = ""
            self._tell()

    def _tell(self) -> None:
        told = (self.state, self.storage_error or self.broker_error)
        if told != self._told:
            self._told = told
            self._telemetry.state(*told)
