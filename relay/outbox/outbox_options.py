"""The options of the outbox in PostgreSQL, parsed and checked. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from relay.core.backoff import RetryPolicy
from relay.postgres.prepared import Preparation
from relay.postgres.sql import TableName

LONGEST_STATEMENT: Final = 15.0
"""Seconds after which a statement without an answer is cancelled, where leases are not shorter."""


def application_name(relay_id: str) -> str:
    """Name of a relay's connections in ``pg_stat_activity``."""
    return f"openoutbox-relay/{relay_id}"


MIGRATE: Final = application_name("migrate")
"""Name of the connections that change the schema."""


class KeyOrder(StrEnum):
    """What happens to an event that follows a dead event of the same key."""

    SKIP = "skip"
    """It is delivered."""
    BLOCK = "block"
    """It waits until the dead event is replayed or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions:
    """Address, table and lease. What a variable sets has no default here: ``relay.settings`` holds it."""

    url: str = field(repr=False)
    """STORAGE_URL; holds a password."""
    relay_id: str
    """RELAY_ID, written to ``locked_by`` verbatim."""
    table: TableName
    lease_timeout: float
    """How long a claim or renewal is valid."""
    retry: RetryPolicy
    """The backoff of reclaimed events (every other delay comes with its verdict), and which attempt is the last."""
    key_order: KeyOrder | None
    """Claim in order per key; None claims in any order. The table needs the extension ``key-order`` for it."""
    delete_delivered: bool
    """ON_DELIVERED=delete: a delivered event's row is deleted, not kept as DELIVERED."""
    fan_out: bool
    """Routes send events to several destinations each, for which the extension ``fan-out`` is wanted."""
    durable_claims: bool
    """Whether the commit of a claim waits for the disk: for publishers that leave proofs of it."""
    prepared: Preparation
    """STORAGE_PREPARED: whether claims, settles and renewals are prepared on the server."""
    statement_timeout: float = LONGEST_STATEMENT
    """A statement without an answer for that long is cancelled, then its connection is cut; 2 s more at most."""
    ping_timeout: float = 3.0
    """A database that does not answer a ping for that long is unavailable; 4 s more for each further host."""
