"""A change and its record in one transaction: what failed left nothing, so that its key can be used again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from relay.outbox.admin.changes import Change, ChangeState, Request, begin, record_progress
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.grants import naming_the_grant
from relay.postgres.operating import short_transaction
from relay.postgres.operator_connections import operator_connection
from relay.postgres.sql import TableName

DOING: Final = "recording a change"


@contextmanager
def recording(url: str, advice: str) -> Iterator[SyncConnection]:
    """A short transaction for a change outside the outbox and its record; ``advice`` says what gives a missing right.

    Raises as ``operating``, without its look at the outbox.
    """
    with operator_connection(url) as opened, naming_the_grant(advice), translating(DOING), short_transaction(opened):
        yield opened


def recorded(
    connection: SyncConnection,
    table: TableName,
    action: str,
    described: Mapping[str, object],
    request: Request,
    work: Callable[[], int],
) -> Change:
    """Record that ``work`` changed so many rows, once for a key, in the caller's transaction.

    Raises RecordMissing, KeyReused, and what ``work`` raises.
    """
    change, new = begin(connection, table, request, action, described)
    if not new:
        return change
    events = work()
    record_progress(connection, table, change.change_id, events, ChangeState.COMPLETE)
    return change._replace(events=events, state=ChangeState.COMPLETE)
