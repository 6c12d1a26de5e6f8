"""Accounts, loaded from a snapshot and the events after it."""

from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from relay.eventstore import EventStore, StoredEvent

FORMAT = 1  # of the state below: take the next number when the fields of Account, or what they mean, change
EVERY = 100  # events after the snapshot that are worth a new one
TABLE = """
CREATE TABLE IF NOT EXISTS account_snapshot (
    tenant_id UUID, account_id UUID, format INT, version INT NOT NULL, position BIGINT NOT NULL, state JSONB NOT NULL,
    PRIMARY KEY (tenant_id, account_id, format)
)
"""
NEWEST = """
SELECT version, position, state FROM account_snapshot WHERE tenant_id = %s AND account_id = %s AND format = %s
"""
SAVE = """
INSERT INTO account_snapshot AS snapshot VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant_id, account_id, format) DO UPDATE
SET version = excluded.version, position = excluded.position, state = excluded.state
WHERE snapshot.position < excluded.position
"""


@dataclass(frozen=True)
class Account:
    """The state of an account."""

    owner: str | None = None
    cents: int = 0

    def after(self, event: StoredEvent) -> "Account":
        """The state after one more event."""
        match event.type:
            case "AccountOpened":
                return replace(self, owner=event.data["owner"])
            case "MoneyDeposited":
                return replace(self, cents=self.cents + event.data["cents"])
            case "MoneyWithdrawn":
                return replace(self, cents=self.cents - event.data["cents"])
        return self


async def load(
    store: EventStore, connection: AsyncConnection[Any], tenant_id: UUID, account_id: UUID
) -> tuple[Account, int]:
    """The state of an account, and its version for ``expected_version``."""
    account, events = await _newest(store, connection, tenant_id, account_id)
    account = reduce(Account.after, events[1:], account)
    if len(events) > EVERY:
        last = events[-1]
        values = (tenant_id, account_id, FORMAT, last.version, last.sequence_num, Jsonb(asdict(account)))
        await connection.execute(SAVE, values)
    return account, events[-1].version if events else 0


async def _newest(
    store: EventStore, connection: AsyncConnection[Any], tenant_id: UUID, account_id: UUID
) -> tuple[Account, list[StoredEvent]]:
    """A state, the event that led to it, and the events after that."""
    row = await (await connection.execute(NEWEST, (tenant_id, account_id, FORMAT))).fetchone()
    if row is not None:
        version, position, state = row
        events = await store.read_stream(tenant_id, account_id, from_version=version)
        if events and events[0].sequence_num == position:  # otherwise it is the snapshot of another history
            return Account(**state), events
    events = await store.read_stream(tenant_id, account_id)
    return reduce(Account.after, events[:1], Account()), events
