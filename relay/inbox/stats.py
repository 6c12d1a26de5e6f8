"""What is in an inbox: its size, its oldest mark, and the marks of each consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from relay.inbox.table import opened, rows
from relay.postgres.codec import Moment
from relay.postgres.sql import TableName

COUNT_MOST: Final = 1_000_000
"""Of how many marks the consumers are counted: the newest. About a second."""


@dataclass(frozen=True, slots=True)
class ConsumerMarks:
    """What one consumer has marked, of the newest ``COUNT_MOST`` marks."""

    consumer: str
    marks: int
    oldest: Moment
    newest: Moment


@dataclass(frozen=True, slots=True)
class InboxFigures:
    """The inbox in figures."""

    size_bytes: int
    """The table with its indexes."""
    oldest: Moment | None
    """When the oldest mark was made; None in an empty inbox."""
    consumers: list[ConsumerMarks]
    exact: bool
    """False when there are more than ``COUNT_MOST`` marks, so that older ones were not counted."""


def read_figures(url: str, table: TableName) -> InboxFigures:
    """Read them. Raises SchemaError without the table or SELECT on it, StorageUnavailable."""
    with opened(url, table, "reading the inbox", "SELECT") as connection:
        [(size, oldest)] = rows(connection, "inbox/admin:size", table, {"table": table.quoted})
        consumers = [
            ConsumerMarks(*row) for row in rows(connection, "inbox/admin:consumers", table, {"most": COUNT_MOST})
        ]
    counted = sum(each.marks for each in consumers)
    return InboxFigures(size, oldest, consumers, exact=counted < COUNT_MOST)
