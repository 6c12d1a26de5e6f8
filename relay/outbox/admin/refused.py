"""What a bulk change of an operator does about rows that the database refuses (``relay.core.blame``).

Used by prune, replay and the other bulk changes. A refused row costs the others nothing: they are changed, and at the
end an error says how many were left as they were, so that the command exits with 1.
"""

from __future__ import annotations

from relay.core.blame import Party, Trial
from relay.core.errors import RowRefused, StorageError


class BulkRefusals:
    """The rows of one change that were refused."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._trial: Trial[str] = Trial()
        self._rows: dict[str, StorageError] = {}

    def failed(self, event_id: str, error: StorageError) -> None:
        """A statement for this row alone failed, or left it as it was. Raises where it is the database."""
        self._rows[event_id] = error
        fault = self._trial.failed(event_id, error)
        if fault is Party.UNKNOWN and not self._trial.controls:
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
        event_id, error = next(iter(self._rows.items()))
        if not (error.guesses_row or self._trial.controls):
            raise error  # no row was changed, so none is to blame
        count = len(self._rows)
        raise RowRefused(
            f"{self._doing}: the database refused {count} event{'s' if count > 1 else ''}, which stay as they were; "
            f"the first is {event_id}: {error}. Correct the row, or the constraint, trigger or rule that refuses it",
            error.sqlstate,
        )
