"""Reserves stock for placed orders, and announces the result."""

import asyncio
import contextlib
import logging
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, OperationalError

from relay.core.errors import StorageBusy, StorageError
from relay.eventstore import EventStore, NewEvent, StoredEvent, SubscriptionBatch, SubscriptionLost, VersionConflict

_log = logging.getLogger(__name__)

OUTBOX = {"OrderConfirmed": "shop.orders", "OrderRejected": "shop.orders"}
EFFECTS = {"StockAdded": 1, "StockReserved": -1}


def available(stock: list[StoredEvent]) -> int:
    """How many pieces of an article are not reserved."""
    return sum(EFFECTS[event.type] * event.data["quantity"] for event in stock)


async def decide(store: EventStore, connection: AsyncConnection[Any], batch: SubscriptionBatch) -> None:
    """Confirm or reject the batch's one order, and acknowledge it, in one transaction."""
    [placed] = batch
    tenant_id, order_id, article_id = placed.tenant_id, placed.stream_id, UUID(placed.data["article"])
    quantity = placed.data["quantity"]
    while True:
        order = await store.read_stream(tenant_id, order_id)
        stock = await store.read_stream(tenant_id, article_id)
        answer = NewEvent("OrderConfirmed" if available(stock) >= quantity else "OrderRejected")
        try:
            async with connection.transaction():
                if order and order[-1].type == "OrderPlaced":  # otherwise it was cancelled
                    if answer.type == "OrderConfirmed":
                        reserved = NewEvent("StockReserved", {"quantity": quantity, "order": str(order_id)})
                        await store.append(tenant_id, article_id, [reserved], stock[-1].version, connection=connection)
                    await store.append(
                        tenant_id, order_id, [answer], order[-1].version, outbox=OUTBOX, connection=connection
                    )
                await batch.acknowledge(connection)
        except (VersionConflict, StorageBusy) as error:
            _log.info("order %s is decided again: %s", order_id, error)
        else:
            return


async def serve(url: str, store: EventStore, pause: float = 1.0) -> None:
    """Decide about orders until cancelled; begins again after an error."""
    while True:
        try:
            async with await AsyncConnection.connect(url) as connection:
                batches = store.subscribe("order process", types=["OrderPlaced"], batch_size=1)
                async with contextlib.aclosing(batches):
                    async for batch in batches:
                        await decide(store, connection, batch)
        except (OperationalError, StorageError, SubscriptionLost) as error:
            _log.warning("the order process begins again: %s", error)
        await asyncio.sleep(pause)
