"""Two banks in one store: opens accounts, moves money from several tasks at once, prints the balances.

python -m examples.bank.main --url postgres://… --topic bank.accounts
"""

from __future__ import annotations

import argparse
import asyncio
import uuid
from operator import methodcaller

import psycopg

from examples.bank.accounts import Refused
from examples.bank.bank import Bank, keep_balances
from relay.eventstore import EventStore

TENANTS = {
    "Iron Bank": uuid.uuid5(uuid.NAMESPACE_DNS, "iron.example"),
    "Gringotts": uuid.uuid5(uuid.NAMESPACE_DNS, "gr.example"),
}
EVENTS = ("AccountOpened", "MoneyDeposited", "MoneyWithdrawn")


async def busy_day(bank: Bank, names: list[str]) -> None:
    """Every account is opened, gets ten deposits of 100 cents at once, and loses 250."""
    for name in names:
        account = uuid.uuid4()
        await bank.do(account, methodcaller("open", name))
        await asyncio.gather(*(bank.do(account, lambda it: it.deposit(100)) for _ in range(10)))
        await bank.do(account, lambda it: it.withdraw(250))
        try:
            await bank.do(account, lambda it: it.withdraw(1_000_000))
        except Refused as refused:
            print(f"{name} was refused: {refused}")


async def run(url: str, topic: str) -> None:
    async with await EventStore.connect(url, schema="bank") as store:
        await store.migrate(positions="gapless", notify=True)
        for tenant in TENANTS.values():
            await store.provision_tenant(tenant)
        names = ["Ada", "Blaise"]
        banks = [Bank(store, tenant, dict.fromkeys(EVENTS, topic)) for tenant in TENANTS.values()]
        events = len(banks) * len(names) * 12
        projection = asyncio.create_task(keep_balances(store, url, events))
        await asyncio.gather(*(busy_day(bank, names) for bank in banks))
        await projection
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute("SELECT tenant_id, owner, cents FROM balances ORDER BY tenant_id, owner")
        by_id = {tenant: name for name, tenant in TENANTS.items()}
        for tenant, owner, cents in await cursor.fetchall():
            print(f"{by_id[tenant]}: {owner} has {cents} cents")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--topic", default="bank.accounts")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.url, arguments.topic))
