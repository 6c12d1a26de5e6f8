"""What is to blame for a statement that fails: the row or the database. It is tried out, not looked up.

A SQLSTATE is a first guess: an application's trigger may raise any of them for one row. So a statement that fails while
the server answers is narrowed to one row, and what becomes of other rows decides:

    unknown ──▶ row refused   a control, which is any other row, went through
       └──────▶ database      ``MOST_ALIKE`` rows failed and none went through; or two and more, with none left to try,
                              whose first guess is the database

- *unknown*: the row is set aside, and controls are tried at once. With no control, it stays so: the row is named, and
  the next row that comes is the control. The relay's state stays 1.
- *row refused*: the rows that failed are named in log, metric and /readyz, set aside and tried again. The state is 1.
- *database*: state 3, with the error; nothing is set aside for long. Fresh controls follow: of claims at each poll
  interval, of settles, whose leases run, after a second at most.

Narrowing takes log2(rows of the statement) statements, one that reads which row it is, and one control.

A write that changed less than it chose, without a lock and without an error, met a refused row, too: see ``KEPT``.

Used by the claim, the settle, the renewal, the reaper and the bulk changes of ``relay.outbox.admin``.
It knows no statement, waits for nothing and does not fail; a ``Trial`` belongs to one loop.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Final, Generic, TypeVar

from relay.core.errors import RowRefused, StorageError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

MOST_ALIKE: Final = 20
"""Rows that fail one after the other, with none that goes through, until it is the database."""

KEPT: Final = "a BEFORE trigger or a rule kept it as it was"
"""Why a row is refused that was chosen, unlocked, and not written."""


def kept(doing: str) -> RowRefused:
    """The error of a write that left rows as they were."""
    return RowRefused(f"{doing}: {KEPT}")


def quarters(items: Sequence[T]) -> list[Sequence[T]]:
    """Up to four parts that together are ``items``, none empty; each is smaller than a list of two or more.

    Quarters find one refused row among a thousand in as many statements as halves do, and where every second row is
    refused they take two thirds.
    """
    size = -(-len(items) // 4)
    return [items[start : start + size] for start in range(0, len(items), size)]


class Party(Enum):
    """What is to blame."""

    UNKNOWN = "not known yet"
    ROW = "the row"
    DATABASE = "the database"


class Trial(Generic[K]):
    """The rows of one kind of statement that failed alone since the last one went through."""

    def __init__(self) -> None:
        self.failed_rows: dict[K, StorageError] = {}
        self.controls = 0
        """How often a row went through since the start."""

    @property
    def last_error(self) -> StorageError | None:
        """Why the last suspect failed; None without one."""
        return next(reversed(self.failed_rows.values()), None)

    def failed(self, row: K, error: StorageError) -> Party:
        """A statement for this row alone failed. After DATABASE ``clear`` begins a trial with fresh controls."""
        self.failed_rows.pop(row, None)
        self.failed_rows[row] = error
        return Party.DATABASE if len(self.failed_rows) >= MOST_ALIKE else Party.UNKNOWN

    def went_through(self) -> dict[K, StorageError]:
        """A row was written: returns the rows that are to blame, those that failed before it."""
        self.controls += 1
        return self.clear()

    def without_control(self) -> Party:
        """There is no other row to try."""
        errors = self.failed_rows.values()
        return Party.DATABASE if len(errors) > 1 and not any(one.guesses_row for one in errors) else Party.UNKNOWN

    def clear(self) -> dict[K, StorageError]:
        """Forget the failed_rows, and return them."""
        failed_rows, self.failed_rows = self.failed_rows, {}
        return failed_rows
