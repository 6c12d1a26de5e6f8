"""What a bulk change of an operator does about rows that the database refuses (``relay.core.blame``).

Used by prune, replay and the other bulk changes. A refused row costs the others nothing: they are changed, and at the
end an error says how many were left as they were, so that the command exits with 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from relay.core.blame import Party, Trial, kept
from relay.core.errors import RowRefused, StorageError
from relay.postgres.codec import Moment
from relay.postgres.connect import SyncConnection as Connection
from relay.postgres.errors import translating
from relay.postgres.operating import short_transaction

_LONG: Final = 2.0  # seconds of failures alone, after which two alike are the database: a table that stays locked
Statement = Callable[[Mapping[str, object]], list[tuple[Any, ...]]]
"""Runs a statement with these parameters."""


class BulkRefusals:
    """The rows of one change that were refused."""

    def __init__(self, doing: str, noun: str = "event") -> None:
        self._doing = doing
        self._noun = noun
        self._trial: Trial[str] = Trial()
        self._rows: dict[str, StorageError] = {}
        self._failing_since: float | None = None

    def failed(self, name: str, error: StorageError) -> None:
        """A statement for this row alone failed, or left it as it was. Raises where it is the database."""
        self._rows[name] = error
        fault = self._trial.failed(name, error)
        self._failing_since = self._failing_since or time.monotonic()
        lasts = time.monotonic() - self._failing_since >= _LONG
        if fault is Party.UNKNOWN and not self._trial.controls and lasts:
            fault = self._trial.without_control()
        if fault is Party.DATABASE:
            if error.guesses_row:
                self.end()
            raise error

    def went_through(self) -> None:
        """Rows were changed."""
        self._trial.went_through()

    def end(self) -> None:
        """Raise for what was left as it was; no error where that is nothing."""
        if not self._rows:
            return
        name, error = next(iter(self._rows.items()))
        if not (error.guesses_row or self._trial.controls):
            raise error  # no row was changed, so none is to blame
        count = len(self._rows)
        raise RowRefused(
            f"{self._doing}: the database refused {count} {self._noun}{'s' if count > 1 else ''}, which stay as they "
            f"were; the first is {name}: {error}. Correct the row, or the constraint, trigger or rule that refuses it",
            error.sqlstate,
        )


@dataclass(slots=True)
class PrunePlace:
    """Where the next batch begins, and which rows of that moment are refused."""

    after: Moment = "-infinity"
    excluded: list[str] = field(default_factory=list)

    def pass_by(self, names: Sequence[str], at: Moment | None) -> None:
        """The last batch ended at this moment, and these rows of it are refused."""
        if at is not None and at != self.after:
            self.after, self.excluded = at, []
        self.excluded += names


class BatchPrune:
    """Deletes old rows batch by batch, in the order of their times, and goes past those that are refused."""

    def __init__(self, connection: Connection, doing: str, refusals: BulkRefusals) -> None:
        self._connection = connection
        self._doing = doing
        self._refusals = refusals

    def delete(
        self, bounds: Mapping[str, object], place: PrunePlace, statement: Statement, oldest: Statement
    ) -> tuple[int, int | None]:
        """How many rows were deleted, and how many were chosen: None where ``limit`` is to be lower.

        ``statement`` returns how many it deleted, the time of the last row that it chose, and the names of those that a
        trigger or a rule kept; ``oldest`` the name and time of the row that it chooses with a limit of 1.
        """
        parameters = {**bounds, "after": place.after, "excluded": place.excluded}
        try:
            with translating(self._doing), short_transaction(self._connection):
                [(count, last, kept_names)] = statement(parameters)
        except StorageError as error:
            if not error.may_blame_row:
                raise
            if bounds["limit"] == 1:
                with short_transaction(self._connection):
                    first = oldest(parameters)
                if not first:
                    raise  # it fails without a row, too
                [(name, at)] = first
                self._refusals.failed(name, error)
                place.pass_by([name], at)
            return 0, None
        for name in kept_names:
            self._refusals.failed(name, kept(self._doing))
            if count:
                self._refusals.went_through()
        if count:
            self._refusals.went_through()
        place.pass_by(kept_names, last)
        return count, count + len(kept_names)


def fewer(size: int) -> int:
    """Rows of the next batch, after one with a refused row: until it is alone."""
    return max(size // 4, 1)
