"""Changes of many events: each runs in a thread of its own and records how far it has come.

A change goes on when its client goes away. It ends with the process: what was changed until then stays changed, the
record says so, and the same selection changes the rest.
"""

from __future__ import annotations

import logging
import threading
from typing import Final
from uuid import UUID

from relay.console.problems import RequestProblem
from relay.core.errors import OutboxError
from relay.outbox.admin.actions import Action
from relay.outbox.admin.bulk import change_events
from relay.outbox.admin.changes import Change, ChangeState, Request, begin, record_progress
from relay.outbox.admin.connection import operating, short_transaction
from relay.outbox.admin.replay import ReplayOptions
from relay.outbox.admin.selection import Selection
from relay.postgres.sql import TableName

MOST_JOBS: Final = 4
"""Changes that run at once; each holds two connections."""

_DOING: Final = "recording a change"
_log = logging.getLogger(__name__)


class _Stopped(Exception):
    pass


class ChangeJobs:
    """The changes of many events that run in this process."""

    def __init__(self, url: str, table: TableName) -> None:
        self._url = url
        self._table = table
        self._lock = threading.Lock()
        self._running: dict[UUID, threading.Event] = {}

    def start(
        self,
        action: Action,
        selection: Selection,
        options: ReplayOptions,
        request: Request,
        described: dict[str, object],
        expected: int,
    ) -> Change:
        """Record a change and begin it; a repeated request returns the first one's record.

        Raises RequestProblem while ``MOST_JOBS`` run, RecordMissing, KeyReused, and the errors of the database.
        """
        with self._lock:
            if len(self._running) >= MOST_JOBS:
                raise RequestProblem(503, "too-many-changes", f"{MOST_JOBS} changes run; wait until one has ended")
            with operating(self._url, self._table, _DOING) as connection, short_transaction(connection):
                change, new = begin(connection, self._table, request, action, described, expected)
            if new:
                stop = self._running[change.change_id] = threading.Event()
                arguments = (change.change_id, action, selection, options, stop)
                threading.Thread(target=self._run, args=arguments, name=str(action), daemon=True).start()
            return change

    def stop(self, change_id: UUID) -> bool:
        """Stop a change after its next batch; whether it runs in this process."""
        with self._lock:
            stop = self._running.get(change_id)
        if stop is not None:
            stop.set()
        return stop is not None

    def close(self) -> None:
        """Ask every change to stop."""
        with self._lock:
            for stop in self._running.values():
                stop.set()

    def _run(
        self, change_id: UUID, action: Action, selection: Selection, options: ReplayOptions, stop: threading.Event
    ) -> None:
        try:
            with operating(self._url, self._table, _DOING) as connection:
                events = 0

                def on_batch(total: int) -> None:
                    nonlocal events
                    events = total
                    record_progress(connection, self._table, change_id, events)
                    if stop.is_set():
                        raise _Stopped

                state, error = ChangeState.COMPLETE, None
                try:
                    change_events(self._url, self._table, action, selection, options, on_batch)
                except _Stopped:
                    state = ChangeState.STOPPED
                except OutboxError as failure:
                    state, error = ChangeState.FAILED, str(failure)
                record_progress(connection, self._table, change_id, events, state, error)
        except OutboxError as failure:
            extra = {"action": "change_unrecorded", "change_id": str(change_id)}
            _log.error("the end of change %s was not recorded: %s", change_id, failure, extra=extra)
        finally:
            with self._lock:
                del self._running[change_id]
