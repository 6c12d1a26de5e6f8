"""What the storage needs to be told, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from relay.core.backoff import RetryPolicy
from relay.postgres.sql import TableName


def application_name(relay_id: str) -> str:
    """What a relay's connections are called in ``pg_stat_activity``."""
    return f"openoutbox-relay/{relay_id}"


MIGRATE: Final = application_name("migrate")
"""What the connections that change the schema are called."""


class KeyOrder(StrEnum):
    """Order per key, by what an event does that comes after a dead one of its key."""

    SKIP = "skip"
    """It passes by."""
    BLOCK = "block"
    """It waits until the dead one is replayed or gone."""


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The outbox in PostgreSQL. Times are seconds."""

    url: str = field(repr=False)
    """STORAGE_URL; holds a password."""
    relay_id: str
    """RELAY_ID, written to ``locked_by`` verbatim."""
    table: TableName = field(default_factory=TableName)
    lease_timeout: float = 180.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """The reaper's backoff (every other delay comes with its verdict), and which attempt is the last."""
    key_order: KeyOrder | None = None
    """Claim in order per key; the table needs the column of ``sql/outbox/extensions/key_order.sql`` for it."""
    statement_timeout: float = 15.0
    """After that long without an answer a statement is cancelled and its connection cut, which may take two seconds
    more."""
    ping_timeout: float = 3.0
    """After that long without an answer to a ping the database counts as away; 4 s more for each further host."""
