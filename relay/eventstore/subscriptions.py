"""Starts subscriptions, and shows them to an operator; one that runs is ``relay.eventstore.subscription``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Final, TypedDict, Unpack
from uuid import UUID

from relay.core.backoff import RetryPolicy
from relay.core.errors import ConfigError
from relay.eventstore.batch import SubscriptionBatch
from relay.eventstore.database import Connection, Database, execute
from relay.eventstore.groups import Part
from relay.eventstore.lease import stored_form
from relay.eventstore.meter import Meter, NoMeter
from relay.eventstore.model import checked_position
from relay.eventstore.parked import ParkedPart
from relay.eventstore.process import DEFAULT_RETRY, Handler, Processing
from relay.eventstore.read import EventFilter, ReadPart
from relay.eventstore.renewal import Renewals
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.states import SubscriptionState, read_states
from relay.eventstore.store_part import Id
from relay.eventstore.subscription import Start, Subscription, SubscriptionOptions, Undecodable
from relay.eventstore.wakeup import Wakeup

_LOOK_AGAIN: Final = 0.02  # seconds


class SubscribeOptions(TypedDict, total=False):
    """The options of ``subscribe``."""

    batch_size: int
    tenants: Iterable[Id] | None
    types: Iterable[str] | None
    start: Start
    lease: float
    poll_interval: float
    meter: Meter | None
    undecodable: Undecodable
    part: tuple[int, int] | None


class SubscriptionPart(ReadPart, ParkedPart):
    """Subscribing, and operating subscriptions."""

    def __init__(self, database: Database, statements: EventStoreStatements, tenant: UUID | None = None) -> None:
        super().__init__(database, statements, tenant)
        self._wakeup = Wakeup(database, statements)
        self._renewals = Renewals(database)

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
        part: tuple[int, int] | None = None,
    ) -> AsyncGenerator[SubscriptionBatch, None]:
        """New events as they come, in batches, from the checkpoint of the subscription of this name.

        Requesting the next batch acknowledges the one before; or ``await batch.acknowledge(connection)`` does, in the
        consumer's own transaction. One instance of a name is active; another takes over when it has not renewed its
        lease for ``lease`` seconds. Notifications wake it; without them it polls every ``poll_interval`` seconds.
        ``start`` counts for a new name only: ``"beginning"``, ``"end"`` or a position. A row that cannot be decoded
        raises ``UndecodableEvent`` after the events before it; with ``undecodable="set aside"`` its stream is parked
        there, which is logged as an error and listed in ``batch.set_aside``. ``batch.park`` parks one whose event the
        consumer cannot apply (``relay.eventstore.parking``); ``process`` does that after some tries.

        ``part=(i, n)`` consumes part ``i`` of ``n``, counted from 0: the events of those streams whose hash falls into
        it, in their order. Run an instance, or several, for each part; ``n`` may be another one in the next deployment
        (``relay.eventstore.groups``).

        Close it (``contextlib.aclosing``) to let another instance take over at once.
        """
        chosen, meter = EventFilter.of(tenants, types), meter or NoMeter()
        options = SubscriptionOptions(
            batch_size, chosen, start, lease, poll_interval, meter, undecodable, Part.of(part)
        )
        return self._subscription(name, options).batches()

    def _subscription(self, name: str, options: SubscriptionOptions) -> Subscription:
        if not name or "\x00" in name:
            raise ConfigError("name: empty or with a NUL character; name the subscription")
        stored = self._stored_name(name)
        return Subscription(
            self._database, self._statements, self._reader, self._wakeup, self._renewals, stored, options
        )

    async def process(
        self, name: str, handler: Handler, *, retry: RetryPolicy = DEFAULT_RETRY, **options: Unpack[SubscribeOptions]
    ) -> None:
        """Apply each event with ``await handler(event, connection)``, without end.

        The connection is the store's: its transaction stores the checkpoint too, so that what the handler writes there
        counts exactly once. A failing event is tried as ``retry`` says; then its stream is parked, with its later
        events behind it in order, and the others go on. Rows that cannot be decoded are parked too. The other options
        are those of ``subscribe``. It ends with an error only for what ends a subscription.
        """
        options.setdefault("undecodable", "set aside")
        batches = self.subscribe(name, **options)
        await Processing(self._database, name, handler, retry).run(batches)

    async def list_subscriptions(self) -> list[SubscriptionState]:
        """All subscriptions by name, with their checkpoints and what is after them.

        One that is consumed in parts is listed once for each instance that holds slots, and once for the slots that
        none holds.
        """
        states = await read_states(self._database, self._statements, self._reader)
        prefix = self._stored_name("")
        return [state._replace(name=state.name.removeprefix(prefix)) for state in states]

    async def reset_subscription(self, name: str, position: int = 0) -> None:
        """Let a subscription continue after ``position``, 0 being the beginning.

        Its active instances, if any, can no longer acknowledge their current batches and continue there too, in all
        parts. The stored position is that of the last event up to there. What was delivered before comes with
        ``batch.replayed``. Parked streams are forgotten: their events come again above the position, and not below it.
        Raises ``PositionsWentBack`` for a position above the newest.
        """
        checkpoint = await self._reader.checkpoint(checked_position("position", position))
        values = {"name": self._stored_name(name), **stored_form(checkpoint)}
        steps = (
            "subscriptions:reset",
            "subscription_groups:drop_members",
            "subscription_groups:drop_slots",
            "parking:forget_all",
        )

        async def reset(connection: Connection) -> None:
            for step in steps:
                await execute(connection, self._statements.text(f"eventstore/{step}"), values)

        await self._database.transaction("reset subscription", reset)

    async def wait_until(self, name: str, position: int, *, timeout: float = 10.0) -> None:
        """Wait until a subscription has acknowledged everything up to a position, to read what an own append led to.

        Pass ``Appended.last_sequence_num``. Raises ``TimeoutError`` after ``timeout`` seconds, ``ConfigError`` for a
        subscription that does not exist.
        """
        position = checked_position("position", position)
        reached = self._statements.text("eventstore/subscriptions:reached")
        async with asyncio.timeout(timeout):
            while True:
                rows = await self._database.rows("wait for a subscription", reached, {"name": self._stored_name(name)})
                if not rows:
                    raise ConfigError(f"subscription {name!r} does not exist")
                if rows[0][0] >= position:
                    return
                await asyncio.sleep(_LOOK_AGAIN)

    async def delete_subscription(self, name: str) -> bool:
        """Delete a subscription with all its parts; its instances end with ``SubscriptionDeleted``.

        Returns whether there was one.
        """
        delete = self._statements.text("eventstore/subscriptions:delete")
        return bool(await self._database.rows("delete subscription", delete, {"name": self._stored_name(name)}))
