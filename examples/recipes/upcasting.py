"""Events as the newest release writes them, whichever release wrote them."""

from collections.abc import Callable
from decimal import Decimal
from uuid import UUID

from relay.eventstore import EventStore, NewEvent, StoredEvent

FORMATS = {"AccountOpened": 1, "MoneyDeposited": 2}  # the newest format of each type


def deposited(cents: int) -> NewEvent:
    """A deposit, as this release writes it."""
    return NewEvent("MoneyDeposited", {"cents": cents}, {"format": 2})


def _renamed(event: StoredEvent) -> StoredEvent:
    """The first releases called a deposit MoneyPaidIn."""
    return event._replace(type="MoneyDeposited")


def _in_cents(event: StoredEvent) -> StoredEvent:
    """Format 1 had an amount in euros, as text: {"amount": "12.50"}."""
    return event._replace(data={"cents": int(100 * Decimal(event.data["amount"]))}, meta={**event.meta, "format": 2})


STEPS: dict[tuple[str, int], Callable[[StoredEvent], StoredEvent]] = {
    ("MoneyPaidIn", 1): _renamed,
    ("MoneyDeposited", 1): _in_cents,
}


def upcast(event: StoredEvent) -> StoredEvent:
    """The event in the newest format of its type. Raises ValueError for one that this release does not know."""
    while (step := STEPS.get((event.type, event.meta.get("format", 1)))) is not None:
        event = step(event)
    if event.meta.get("format", 1) != FORMATS.get(event.type):
        raise ValueError(f"position {event.sequence_num}: {event.type} has an unknown format: {event.meta}")
    return event


async def read(store: EventStore, tenant_id: UUID, stream_id: UUID) -> list[StoredEvent]:
    """A stream's events in the newest formats."""
    return [upcast(event) for event in await store.read_stream(tenant_id, stream_id)]
