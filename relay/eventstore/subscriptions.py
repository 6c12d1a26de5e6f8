"""Starts subscriptions, and shows them to an operator; one that runs is ``relay.eventstore.subscription``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from relay.core.errors import ConfigError
from relay.eventstore.database import Database
from relay.eventstore.meter import Meter, NoMeter
from relay.eventstore.model import checked_position
from relay.eventstore.part import Id, check_limit
from relay.eventstore.read import EventFilter, ReadPart
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.subscription import Start, Subscription, SubscriptionBatch, SubscriptionOptions, Undecodable
from relay.eventstore.wakeup import Wakeup


class SubscriptionState(NamedTuple):
    """A subscription, as an operator sees it."""

    name: str
    position: int
    active: bool
    """Some instance holds the lease."""
    updated_at: datetime
    holder: UUID | None
    """The instance that holds the lease, or held it last."""
    lag_events: int
    """Events of all tenants and types after the position; counted up to 100,000."""
    lag_seconds: float
    """The age of the oldest of them; 0.0 without one."""


class SubscriptionPart(ReadPart):
    """Subscribing, and operating subscriptions."""

    def __init__(self, database: Database, statements: EventStoreStatements, tenant: UUID | None = None) -> None:
        super().__init__(database, statements, tenant)
        self._wakeup = Wakeup(database, statements)

    def subscribe(  # noqa: PLR0913 -- each is a setting of one subscription
        self,
        name: str,
        *,
        batch_size: int = 1000,
        tenants: Iterable[Id] | None = None,
        types: Iterable[str] | None = None,
        start: Start = "beginning",
        lease: float = 3.0,
        poll_interval: float = 1.0,
        meter: Meter | None = None,
        undecodable: Undecodable = "stop",
    ) -> AsyncGenerator[SubscriptionBatch, None]:
        """New events as they come, in batches, from the checkpoint of the subscription of this name.

        Requesting the next batch acknowledges the one before; or ``await batch.acknowledge(connection)`` does, in the
        consumer's own transaction. One instance of a name is active; another takes over when it has not renewed its
        lease for ``lease`` seconds. Notifications wake it; without them it polls every ``poll_interval`` seconds.
        ``start`` counts for a new name only: ``"beginning"``, ``"end"`` or a position. A row that cannot be decoded
        raises ``UndecodableEvent`` after the events before it; with ``undecodable="set aside"`` it is passed over,
        logged as an error and listed in ``batch.set_aside``.

        Close it (``contextlib.aclosing``) to let another instance take over at once.
        """
        check_limit(batch_size)
        if not name or "\x00" in name:
            raise ConfigError("name: empty or with a NUL character; name the subscription")
        if lease <= 0 or poll_interval <= 0:
            raise ConfigError(f"lease and poll_interval: {lease!r} and {poll_interval!r}; both must be above 0 seconds")
        if undecodable not in ("stop", "set aside"):
            raise ConfigError(f"undecodable: {undecodable!r}; choose 'stop' or 'set aside'")
        if start not in ("beginning", "end"):
            checked_position("start", start)
        event_filter = EventFilter.of(tenants, types)
        options = SubscriptionOptions(
            batch_size, event_filter, start, lease, poll_interval, meter or NoMeter(), undecodable
        )
        return Subscription(
            self._database, self._statements, self._reader, self._wakeup, self._stored_name(name), options
        ).batches()

    async def list_subscriptions(self) -> list[SubscriptionState]:
        """All subscriptions by name, with their checkpoints and what is after them."""
        horizon, _, _ = await self._reader.look()
        rows = await self._database.run(
            "list subscriptions", self._statements.text("eventstore/subscriptions:list"), {"horizon": horizon}
        )
        prefix = self._stored_name("")
        return [
            SubscriptionState._make((name.removeprefix(prefix), *row, await self._age_after(row[0])))
            for name, *row in rows
        ]

    def _stored_name(self, name: str) -> str:
        """The name in the table: a store of one tenant has names of its own, which row-level security tells apart."""
        return name if self._tenant is None else f"{self._tenant}/{name}"

    async def _age_after(self, position: int) -> float:
        """Seconds since the first event after a position was written; 0.0 when there is none."""
        page = await self._reader.page(position, 1, EventFilter(), set_aside=True)
        return max((page.read_at - page.events[0].log_date).total_seconds(), 0.0) if page.events else 0.0

    async def reset_subscription(self, name: str, position: int = 0) -> None:
        """Let a subscription continue after ``position``, 0 being the beginning.

        Its active instance, if any, can no longer acknowledge its current batch and continues there too.
        """
        values = {"name": self._stored_name(name), "position": checked_position("position", position)}
        await self._database.run("reset subscription", self._statements.text("eventstore/subscriptions:reset"), values)

    async def delete_subscription(self, name: str) -> bool:
        """Delete a subscription; its instances end with ``SubscriptionDeleted``. Returns whether there was one."""
        delete = self._statements.text("eventstore/subscriptions:delete")
        return bool(await self._database.run("delete subscription", delete, {"name": self._stored_name(name)}))
