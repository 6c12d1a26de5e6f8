"""A delivery log and an event store with something in them, for the console to show."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from relay.deliverylog import open_delivery_log
from relay.eventstore import NO_STREAM, EventStore, NewEvent
from tests.deliverylog.making import entry, event

TENANT = UUID("847ed188-9e8b-4d23-8eb4-9126ebd77a4d")
OTHER_TENANT = UUID("0b9f5a1e-64f3-4d6c-a1f7-6c5f1b1d9e55")
STREAM = UUID("a88f94db-6e7a-439e-9861-485f63cc8a13")


def stock_log(url: str, attempts: int = 120, event_id: str = "event-7") -> None:
    """Migrate a log, and record attempts of the last hour: each seventh failed; event 7 has the id ``event_id``."""

    async def run() -> None:
        now = datetime.now(UTC)
        entries = []
        for number in range(attempts):
            id_ = event_id if number == 7 else f"event-{number}"
            topic = ("order.placed", "order.paid", "user.signup")[number % 3]
            its = event(
                id_,
                now - timedelta(seconds=20 * number + 5),
                topic=topic,
                tenant_id="acme" if number % 2 else "globex",
                matched_destination_ids=["kafka-eu"],
                data=b'{"order": %d, "secret": "the payload"}' % number,
                metadata={"traceparent": "the header"},
            )
            failed = number % 7 == 0
            fields = {"status": "failed", "code": "MSG_SIZE_TOO_LARGE"} if failed else {}
            response = {"reason": "out of quota"} if failed else {"partition": 3, "offset": 1000 + number}
            time = now - timedelta(seconds=20 * number)
            entries.append(
                entry(f"attempt-{number}", time, its, destination_id="kafka-eu", response_data=response, **fields)
            )
        store = await open_delivery_log(url)
        await store.migrate()
        await store.insert_many(entries)
        await store.close()

    _run(run())


def stock_store(url: str, streams: int = 3, role: str = "openoutbox_console") -> None:
    """Migrate a store as its owner: two tenants, streams of three events, a subscription; ``role`` may look."""

    async def run() -> None:
        async with await EventStore.connect(url, max_connections=3) as store:
            await store.migrate()
            for tenant in (TENANT, OTHER_TENANT):
                await store.provision_tenant(tenant)
            events = [
                NewEvent("AccountOpened", {"owner": "Ada", "secret": "the body"}, {"by": "the metadata"}),
                NewEvent("MoneyDeposited", {"cents": 12_500}),
                NewEvent("MoneyWithdrawn", {"cents": 2_500}),
            ]
            for number in range(streams):
                await store.append(TENANT, UUID(int=STREAM.int + number), events, NO_STREAM)
            batches = store.subscribe("balances", batch_size=2)
            await anext(batches)
            await anext(batches)  # acknowledges the first
            await batches.aclose()
            await store.grant(role, "console")

    _run(run())


def _run(work: Coroutine[Any, Any, None]) -> None:
    """In a thread of its own: a browser's event loop may be running in this one."""
    with ThreadPoolExecutor(1) as aside:
        aside.submit(asyncio.run, work).result()
