"""Dead letters of an inbox: list, show, have one tried again, skip one.

``openoutbox.inbox.process`` makes them, in the table of ``relay-cli inbox migrate --with dead-letters``. All functions
raise SchemaError without that table and for a missing right, StorageBusy where a consumer holds the row for more than
half a second, StorageUnavailable.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from openoutbox.identity import canonical_id
from relay.inbox.table import opened, rows
from relay.postgres.codec import Moment
from relay.postgres.operating import short_transaction
from relay.postgres.sql import TableName

_EXTENSION: Final = "dead-letters"


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


def retry_letters(url: str, table: TableName, consumer: str, event_id: str | None) -> int:
    """Mark one dead letter of a consumer, or all, for ``openoutbox.inbox.retries``; how many."""
    with opened(url, table, "marking dead letters", "SELECT, UPDATE", _EXTENSION) as connection:
        values = {"consumer": consumer, "event_id": None if event_id is None else canonical_id(event_id)}
        with short_transaction(connection):
            return len(rows(connection, "inbox/letters:retry", table, values))


def skip_letter(url: str, table: TableName, consumer: str, event_id: str) -> bool:
    """Delete one and mark its event as handled; whether there was one. Needs INSERT on the inbox, too."""
    with opened(url, table, "skipping a dead letter", "SELECT, DELETE", _EXTENSION) as connection:
        values = {"consumer": consumer, "event_id": canonical_id(event_id)}
        with short_transaction(connection):
            return bool(rows(connection, "inbox/letters:skip", table, values))
