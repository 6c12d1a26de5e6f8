"""Claims that a crash of the database loses: their commits do not wait until the log is on the disk.

The log is written in order, so a crash loses the last claims and keeps those before them. Every other commit waits for
the log, and takes all that was logged before it along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

from tests.support.doubles.memory_storage import MemoryRow
from tests.system.simulation.ledger import Ledger

LONGEST = 0.6
"""Seconds until the server itself flushes a commit that did not wait: three times ``wal_writer_delay``."""

Change = tuple[MemoryRow, MemoryRow]
"""A row, and a copy of it as it was before the statement."""


class Unflushed:
    """What the statements since the last flush changed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._claims: list[tuple[float, Sequence[Change]]] = []
        self.on_claim: Callable[[], None] | None = None
        """Called after each claim of rows."""

    def committed(self, op: str, changes: Sequence[Change]) -> None:
        """A statement has committed."""
        if op == "claim":
            self._claims.append((self._ledger.clock(), changes))
            if self.on_claim is not None:
                self.on_claim()
        else:
            self.flush()

    def flush(self) -> None:
        """The log is on the disk."""
        self._claims.clear()

    def lose(self, share: float) -> None:
        """The server crashes: the last ones of the claims, ``share`` of them, never happened."""
        now = self._ledger.clock()
        claims = [changes for at, changes in self._claims if now - at <= LONGEST]
        for changes in reversed(claims[len(claims) - round(share * len(claims)) :]):
            for row, before in changes:
                for one in fields(MemoryRow):
                    setattr(row, one.name, getattr(before, one.name))
                self._ledger.undo(row)
        self.flush()
