"""Changes of many events: each runs in a thread of its own and records how far it has come.

A change goes on when its client goes away. It ends with the process: what was changed until then stays changed, the
record says so, and the same selection changes the rest. A process that is stopped lets each change end its batch
and record it; one that is killed leaves the count of the batch before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol
from uuid import UUID

from relay.console.problems import RequestProblem
from relay.console.recording import DOING
from relay.core.errors import OutboxError
from relay.outbox.admin.changes import Change, ChangeState, Request, begin, record_progress
from relay.outbox.admin.connection import operating, short_transaction
from relay.postgres.sql import TableName

MOST_JOBS: Final = 4
"""Changes that run at once; each holds two connections."""


class Work(Protocol):
    """Changes events; their number."""

    def __call__(self, on_batch: Callable[[int], None], *, change_id: UUID) -> int:
        """``on_batch`` receives the total after each batch, and may raise to stop; ``change_id`` is the record's."""


_log = logging.getLogger(__name__)

STOPPED_BY_PROCESS: Final = "the console was stopped; the same selection changes the rest"
"""What the record says of a change that ended with its process."""

_RECORDED_WITHIN: Final = 60.0  # seconds that a database may be away when a change ends
_AGAIN_AFTER: Final = 1.0  # seconds
_ENDED_WITHIN: Final = 3.0  # seconds that the batches of all changes have at the end of the process


class _Stopped(Exception):
    """By an operator, as the record says, or by the end of this process."""


class ChangeJobs:
    """The changes of many events that run in this process."""

    def __init__(self, url: str, table: TableName) -> None:
        self._url = url
        self._table = table
        self._lock = threading.Lock()
        self._running: dict[UUID, threading.Thread] = {}
        self._closing = threading.Event()

    def start(
        self,
        action: str,
        work: Work,
        request: Request,
        described: Mapping[str, object],
        expected: int,
    ) -> Change:
        """Record a change and begin it; a repeated request returns the first one's record.

        Raises RequestProblem while ``MOST_JOBS`` run, RecordMissing, KeyReused, and the errors of the database.
        """
        with self._lock:
            with operating(self._url, self._table, DOING) as connection, short_transaction(connection):
                change, new = begin(connection, self._table, request, action, described, expected)
                if new:
                    self._refuse_more()  # in the transaction: what is refused is not recorded
            if new:
                arguments = (change.change_id, work)
                thread = threading.Thread(target=self._run, args=arguments, name=action, daemon=True)
                self._running[change.change_id] = thread
                thread.start()
            return change

    def close(self) -> None:
        """Stop every change, and wait three seconds at most until each has recorded its last batch."""
        deadline = time.monotonic() + _ENDED_WITHIN
        with self._lock:
            self._closing.set()
            threads = list(self._running.values())
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _refuse_more(self) -> None:
        if self._closing.is_set():
            raise RequestProblem(503, "shutting-down", "the console is shutting down")
        if len(self._running) >= MOST_JOBS:
            raise RequestProblem(503, "too-many-changes", f"{MOST_JOBS} changes run; wait until one has ended")

    def _run(self, change_id: UUID, work: Work) -> None:
        try:
            self._record_end(change_id, *self._change(change_id, work))
        finally:
            with self._lock:
                del self._running[change_id]

    def _change(self, change_id: UUID, work: Work) -> tuple[int, ChangeState, str | None]:
        """Change the events, and record each batch; how many they are, and how it ended."""
        events = 0
        try:
            with operating(self._url, self._table, DOING) as connection:

                def on_batch(total: int) -> None:
                    nonlocal events
                    events = total
                    stopped = record_progress(connection, self._table, change_id, events)
                    if stopped is not None or self._closing.is_set():
                        raise _Stopped

                work(on_batch, change_id=change_id)
        except _Stopped:
            return events, ChangeState.STOPPED, STOPPED_BY_PROCESS  # unless the record names an operator
        except OutboxError as failure:
            return events, ChangeState.FAILED, str(failure)
        return events, ChangeState.COMPLETE, None

    def _record_end(self, change_id: UUID, events: int, state: ChangeState, error: str | None) -> None:
        """Record how it ended. What ended it may be the database: so try again for a minute."""
        deadline = time.monotonic() + _RECORDED_WITHIN
        while True:
            try:
                with operating(self._url, self._table, DOING) as connection:
                    record_progress(connection, self._table, change_id, events, state, error)
            except OutboxError as failure:
                if time.monotonic() < deadline and not self._closing.wait(_AGAIN_AFTER):
                    continue
                extra = {"action": "change_unrecorded", "change_id": str(change_id)}
                _log.error("the end of change %s was not recorded: %s", change_id, failure, extra=extra)
            return
