"""Dead letters of an inbox: list, show, have one tried again, skip one.

``openoutbox.inbox.process`` makes them, in the table of ``relay-cli inbox migrate --with dead-letters``. All functions
raise SchemaError without that table and for a missing right, StorageBusy where a consumer holds the row for more than
half a second, StorageUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from openoutbox.identity import canonical_id
from relay.core.blame import kept
from relay.inbox.table import opened, rows
from relay.postgres.codec import Moment
from relay.postgres.connect import SyncConnection as Connection
from relay.postgres.grants import rights_text
from relay.postgres.operating import short_transaction
from relay.postgres.sql import TableName

_EXTENSION: Final = "dead-letters"
_RIGHTS: Final = rights_text("inbox/grants", "operator_tries")


class ListedLetter(NamedTuple):
    """One line of the list."""

    state: str
    """``dead``, or ``retry`` until the consumer has tried it again."""
    consumer: str
    event_id: str
    event_type: str | None
    partition_key: str | None
    tries: int
    since: Moment
    payload_bytes: int
    error: str | None


class ShownLetter(NamedTuple):
    """A dead letter, whole."""

    state: str
    consumer: str
    event_id: str
    event_type: str | None
    partition_key: str | None
    tries: int
    since: Moment
    error: str | None
    headers: str
    """PostgreSQL's JSON text."""
    payload: bytes


def list_letters(url: str, table: TableName, consumer: str | None, most: int) -> list[ListedLetter]:
    """Those of one consumer or of all, oldest first."""
    with opened(url, table, "listing dead letters", "SELECT", _EXTENSION) as connection:
        values = {"consumer": consumer, "most": most}
        return [ListedLetter(*row) for row in rows(connection, "inbox/letters:list", table, values)]


def show_letter(url: str, table: TableName, consumer: str, event_id: str) -> ShownLetter | None:
    """One, or None where there is none."""
    with opened(url, table, "showing a dead letter", "SELECT", _EXTENSION) as connection:
        values = {"consumer": consumer, "event_id": canonical_id(event_id)}
        letters = [ShownLetter(*row) for row in rows(connection, "inbox/letters:show", table, values)]
        return letters[0] if letters else None


@contextmanager
def changing_letters(url: str, table: TableName, doing: str) -> Iterator[Connection]:
    """One short transaction for ``retry_letters`` or ``skip_letter``, which a record of the change can share.

    Needs SELECT, UPDATE and DELETE on the table of the tries, to skip INSERT on the inbox, too.
    """
    with opened(url, table, doing, _RIGHTS, _EXTENSION) as connection, short_transaction(connection):
        yield connection


def retry_letters(connection: Connection, table: TableName, consumer: str, event_id: str | None) -> int:
    """Mark one dead letter of a consumer, or all, for ``openoutbox.inbox.retries``; how many.

    In a transaction of ``changing_letters``. Raises RowRefused, and marks none, where a trigger keeps one as it was.
    """
    values = {"consumer": consumer, "event_id": None if event_id is None else canonical_id(event_id)}
    [(chosen, marked)] = rows(connection, "inbox/letters:retry", table, values)
    if marked < chosen:
        raise kept(f"marking dead letters: {chosen - marked} of {chosen}")
    return int(marked)


def skip_letter(connection: Connection, table: TableName, consumer: str, event_id: str) -> bool:
    """Delete one and mark its event as handled; whether there was one.

    In a transaction of ``changing_letters``; needs INSERT on the inbox. Raises RowRefused where a trigger keeps it.
    """
    values = {"consumer": consumer, "event_id": canonical_id(event_id)}
    skipped = bool(rows(connection, "inbox/letters:skip", table, values))
    if not skipped and rows(connection, "inbox/letters:show", table, values):
        raise kept("skipping a dead letter")
    return skipped
