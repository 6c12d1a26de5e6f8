"""The application: loads an account, decides, and appends; another writer was faster: it decides again.

The events, and their announcements in the outbox, are one transaction. The relay does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import psycopg

from examples.bank.accounts import Account
from relay.eventstore import EventStore, NewEvent, VersionConflict

Decision = Callable[[Account], list[NewEvent]]

BALANCES = """
CREATE TABLE IF NOT EXISTS balances (
    tenant_id UUID, account_id UUID, owner TEXT, cents BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (tenant_id, account_id)
)
"""
CHANGE = """
INSERT INTO balances (tenant_id, account_id, owner, cents) VALUES (%(tenant)s, %(account)s, %(owner)s, %(cents)s)
ON CONFLICT (tenant_id, account_id) DO UPDATE SET cents = balances.cents + EXCLUDED.cents
"""


class Bank:
    """One tenant's bank."""

    def __init__(self, store: EventStore, tenant: UUID, topics: dict[str, str]) -> None:
        self._store = store
        self._tenant = tenant
        self._topics = topics

    async def do(self, account_id: UUID, decide: Decision) -> None:
        """Let a customer do something; raises Refused when the account says no."""
        while True:
            account = Account.from_events(await self._store.read_stream(self._tenant, account_id))
            try:
                await self._store.append(
                    self._tenant, account_id, decide(account), account.version, outbox=self._topics
                )
            except VersionConflict:
                continue
            return


async def keep_balances(store: EventStore, url: str, until: int) -> None:
    """A projection: a table of balances, each event counted exactly once, up to that many events."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(BALANCES)
        await connection.commit()
        seen = 0
        subscription = store.subscribe("balances")
        async for batch in subscription:
            async with connection.transaction():
                for event in batch:
                    data = event.data
                    assert isinstance(data, dict)
                    sign = {"MoneyDeposited": 1, "MoneyWithdrawn": -1}.get(event.type, 0)
                    change = {
                        "tenant": event.tenant_id,
                        "account": event.stream_id,
                        "owner": data.get("owner"),
                        "cents": sign * data.get("amount", 0),
                    }
                    await connection.execute(CHANGE, change)
                await batch.acknowledge(connection)
            seen += len(batch)
            if seen >= until:
                break
        await subscription.aclose()
