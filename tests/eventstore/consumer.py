"""A process of the fail-over test: keeps a table of what it saw, in one transaction with its checkpoint."""

from __future__ import annotations

import asyncio
import os
import sys

import psycopg

from relay.eventstore import EventStore


async def main(url: str, number: int, parts: int) -> None:
    async with await EventStore.connect(url) as store, await psycopg.AsyncConnection.connect(url) as connection:
        async for batch in store.subscribe("projection", part=(number, parts), lease=1.0, poll_interval=0.2):
            async with connection.transaction():
                for event in batch:
                    values = (event.data, os.getpid())
                    await connection.execute("INSERT INTO projection VALUES (%s, %s)", values)
                await batch.acknowledge(connection)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
