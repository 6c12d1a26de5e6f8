"""What was done and what arrived, and the sums of it: the demonstration's verdict is computed here, from nothing else.

Threads of the workload and of the consumer write, the display reads; every method takes the lock for a moment.
Times are seconds of ``time.monotonic`` in one process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LedgerTally:
    """The sums at one moment. An event is counted once, however often it arrived; extra arrivals are duplicates.

    Withheld events are counted apart: those that the broker refuses or that are due later.
    """

    transactions_committed: int
    transactions_rolled_back: int
    committed: int
    rolled_back: int
    withheld: int
    received: int
    missing: int
    leaked: int
    unknown: int
    duplicates: int
    seconds: float
    p50: float | None
    p99: float | None

    @property
    def per_second(self) -> float:
        """Events that arrived, by the time from the first commit to the last arrival."""
        return self.received / self.seconds if self.seconds > 0 else 0.0

    @property
    def sums_agree(self) -> bool:
        """Everything committed arrived, nothing rolled back or unheard of did, and there was something at all."""
        return self.committed > 0 and not (self.missing or self.leaked or self.unknown)

    def accounts_for(self, rows: Mapping[str, int]) -> bool:
        """Whether each missing event is in the table and undelivered, for an operator paused or buried it.

        ``rows`` counts the rows of the outbox by status.
        """
        undelivered = sum(count for status, count in rows.items() if status != "DELIVERED")
        return replace(self, missing=max(0, self.missing + self.withheld - undelivered)).sums_agree


class Ledger:
    """The events of one demonstration by their ids."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._committed: dict[str, float] = {}
        self._rolled_back: set[str] = set()
        self._withheld: set[str] = set()
        self._arrived: dict[str, float] = {}
        self._arrivals = 0
        self._transactions = [0, 0]

    def commit(self, event_ids: Iterable[str], at: float) -> None:
        """A transaction was committed; ``at`` is when its COMMIT was sent."""
        with self._lock:
            self._committed.update(dict.fromkeys(event_ids, at))
            self._transactions[0] += 1

    def roll_back(self, event_ids: Iterable[str]) -> None:
        """A transaction was rolled back, with its events."""
        with self._lock:
            self._rolled_back.update(event_ids)
            self._transactions[1] += 1

    def withhold(self, event_ids: Iterable[str]) -> None:
        """A transaction was committed with these events, which are not delivered now."""
        with self._lock:
            self._withheld.update(event_ids)

    def receive(self, event_id: str, at: float) -> None:
        """A message arrived at the consumer; only an event's first arrival counts for its latency."""
        with self._lock:
            self._arrived.setdefault(event_id, at)
            self._arrivals += 1

    def complete(self) -> bool:
        """Whether every committed event has arrived."""
        with self._lock:
            return self._committed.keys() <= self._arrived.keys()

    def tally(self) -> LedgerTally:
        """The sums of now."""
        with self._lock:
            arrived = self._arrived.keys() - self._withheld
            known = arrived & self._committed.keys()
            leaked = len(arrived & self._rolled_back)
            latencies = sorted(self._arrived[event_id] - self._committed[event_id] for event_id in known)
            first, last = min(self._committed.values(), default=0.0), max(self._arrived.values(), default=0.0)
            return LedgerTally(
                transactions_committed=self._transactions[0],
                transactions_rolled_back=self._transactions[1],
                committed=len(self._committed),
                rolled_back=len(self._rolled_back),
                withheld=len(self._withheld - self._arrived.keys()),
                received=len(arrived),
                missing=len(self._committed) - len(known),
                leaked=leaked,
                unknown=len(arrived) - len(known) - leaked,
                duplicates=self._arrivals - len(self._arrived),
                seconds=max(0.0, last - first),
                p50=_quantile(latencies, 0.50),
                p99=_quantile(latencies, 0.99),
            )


def _quantile(ascending: list[float], share: float) -> float | None:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else None
