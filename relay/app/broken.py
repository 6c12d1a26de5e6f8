"""What is broken now: the findings of ``relay-cli causes`` and ``check``, Overview and the API, in the same words.

They are those of the outbox, and of what is broken behind the broker: dead letters of the inbox, and streams that a
subscription has set aside. Both are tables beside the outbox that may be there. One that is not, or that this user may
not read, has no findings.

Findings are about the outbox as a whole, and are read from figures. Causes say why events fail
(``relay.outbox.admin.causes``), which have events: these are shown, replayed and counted by type and by minute. A
finding has none of this, so the two stay apart.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final, LiteralString, NamedTuple

from openoutbox.names import DEFAULT_TRIES, tries_of
from relay.core.durations import time_text
from relay.core.errors import OutboxError
from relay.core.finding import Finding, Level
from relay.eventstore.statements import EventStoreStatements
from relay.outbox.admin.overview import Overview, read_overview
from relay.outbox.admin.trouble import counted, troubles
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.grants import Holding, Right, holding
from relay.postgres.operating import fetch, short_transaction
from relay.postgres.operator_connections import operator_connection
from relay.postgres.sql import DEFAULT_INBOX, DEFAULT_SCHEMA, TableName, quote_identifier, statement

_DOING: Final = "looking at consumers"
_STATEMENT: Final = "2000"  # milliseconds
MOST_COUNTED: Final = 10_000
"""Dead letters that are counted: the oldest."""


class OutboxState(NamedTuple):
    """The outbox at a glance, and what is wrong with it and behind the broker."""

    overview: Overview
    findings: list[Finding]

    def before_a_start(self) -> list[Finding]:
        """The findings but for what the absence of relays explains, and for prune: ``check`` names its age itself."""
        absent = {"relays", "prune"} if self.overview.relays else {"relays", "prune", "lag"}
        return [finding for finding in self.findings if finding.subject not in absent]


def read_state(url: str, table: TableName, store_schema: str | None = None, *, timeline: bool = False) -> OutboxState:
    """What is broken now. Raises as ``read_overview`` and ``consumer_troubles``."""
    overview = read_overview(url, table, timeline=timeline)
    return OutboxState(overview, [*troubles(overview), *consumer_troubles(url, table, store_schema)])


def consumer_troubles(url: str, table: TableName, store_schema: str | None = None) -> list[Finding]:
    """One for each consumer and subscription.

    Raises ConfigError for a wrong URL, StorageError where the database does not answer.
    """
    schema = store_schema or DEFAULT_SCHEMA
    inbox = TableName(DEFAULT_INBOX, table.schema)
    tries = tries_of(inbox)
    with operator_connection(url) as connection, translating(_DOING):
        letters = statement("inbox/letters:count", names={DEFAULT_INBOX: inbox, DEFAULT_TRIES: tries})
        parked = EventStoreStatements(schema).text("eventstore/parking:waiting")
        place = f"{quote_identifier(schema)}.event_parked"
        return [
            *map(_letters, _rows(connection, tries.quoted, letters)),
            *(_parked(row, schema) for row in _rows(connection, place, parked)),
        ]


def _rows(connection: SyncConnection, table: str, sql: LiteralString) -> Sequence[tuple[Any, ...]]:
    """No row without the table, without the right, or where there is no answer in time: it is beside the outbox."""
    if holding(connection, Right("SELECT", "table", table)) is not Holding.YES:
        return []
    try:
        with translating(_DOING), short_transaction(connection):
            connection.execute(statement("outbox/search:limit"), {"timeout": _STATEMENT})
            return fetch(connection, sql, {"most": MOST_COUNTED})
    except OutboxError:
        return []


def _letters(row: tuple[Any, ...]) -> Finding:
    consumer, count, since = row
    least = "at least " if count >= MOST_COUNTED else ""
    message = f"Consumer {consumer} has {least}{counted(count, 'dead letter')}, the oldest since {time_text(since)}."
    name = shlex.quote(consumer)
    advice = f"relay-cli inbox list {name} says why; correct the handler, then: relay-cli inbox retry {name}"
    return Finding(Level.WARNING, "inbox", message, advice, name=consumer)


def _parked(row: tuple[Any, ...], schema: str) -> Finding:
    subscription, count, since = row
    option = "" if schema == DEFAULT_SCHEMA else f" --schema {shlex.quote(schema)}"
    name = shlex.quote(subscription)
    message = f"Subscription {subscription} has set aside {counted(count, 'stream')}, the first at {time_text(since)}."
    advice = f"relay-cli store parked list {name}{option} says why; then: relay-cli store parked retry {name}{option}"
    return Finding(Level.WARNING, "subscription", message, advice, name=subscription)
