"""A consumer's database with an inbox, and marks of any age."""

from __future__ import annotations

import pytest

from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.support.fixtures.outbox import Outbox, give_rights

INBOX = TableName(DEFAULT_INBOX)

_MARKS = """
INSERT INTO openoutbox_inbox (consumer, event_id, received_at)
SELECT %(consumer)s, gen_random_uuid()::text, now() - make_interval(hours => n) FROM generate_series(1, %(hours)s) AS n
"""


def mark_hourly(place: Outbox, hours: int, consumer: str = "billing") -> None:
    """One mark for each of the last ``hours`` hours."""
    place.database.run(_MARKS, {"consumer": consumer, "hours": hours})


def count_marks(place: Outbox) -> int:
    [(count,)] = place.database.run("SELECT count(*) FROM openoutbox_inbox")
    return int(count)


@pytest.fixture
def place(outbox: Outbox) -> Outbox:
    """A database with an outbox, an inbox with dead letters, and the roles of both."""
    create(outbox.owner_url, INBOX, ["dead-letters"])
    with outbox.database.connect() as connection:
        give_rights(connection)
    return outbox
