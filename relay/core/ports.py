"""The engine's port to a broker: what every destination implements.

All methods are called from one event loop, unless their text says otherwise. A publisher raises errors of
``relay.core.errors`` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from relay.core.destination import WatchedDestination
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink

NO_MEMBERS: Final[Mapping[str, WatchedDestination]] = MappingProxyType({})


class Publisher(Protocol):
    """A broker's client. ``name`` is its PUBLISHER_TYPE.

    One whose destination is one thing derives from ``SingleDestination``.
    """

    name: str

    @property
    def blocked(self) -> str:
        """Why the broker takes nothing although it is connected, where it says so; empty while it takes events."""

    @property
    def members(self) -> Mapping[str, WatchedDestination]:
        """By name, the destinations behind it that it watches; empty where the engine watches it as one."""

    @property
    def keeps_runs(self) -> bool:
        """Whether it may be handed runs: several events of one key and one destination in one ``publish``, in order.

        It promises that the broker stores no event of a run before each earlier one of that run is stored, whatever
        fails, is cut or is killed meanwhile. Once an event of a run has failed, those behind it that the broker does
        not acknowledge are ``Withheld``; when that is reported, the client holds none of them.
        """

    async def open(self) -> None:
        """Make the client. Raises ``ConfigError`` for what can never work; an absent broker is no error."""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event, in order, and return once the client holds them all (back-pressure).

        Each event is resolved exactly once through ``sink``, in the loop's thread, maybe before this returns, as
        soon as its own answer has arrived. Raises nothing that an outcome can express. Calls do not overlap.
        """

    async def probe(self, timeout: float) -> None:
        """Ask the broker for a sign of life, at most ``timeout`` seconds.

        Raises ``BrokerUnreachable`` with the reason (also for a refused login or TLS handshake). May run at the
        same time as ``publish``.
        """

    def destination_of(self, event: OutboxEvent) -> str:
        """The name of what this event needs, and what can fail on its own: one server of several. Empty for all of it.

        Events of one name fail together, and its state is shown under that name, which holds no secret. The publisher
        asks no server for it, and need not be open. The name of an event may change once the servers have said more
        about themselves: where a cluster keeps what, for example.
        """

    async def probe_destination(self, destination: str, timeout: float) -> None:
        """As ``probe``, of one destination by the name that ``destination_of`` gives."""

    def take_back(self, reason: str) -> None:
        """Resolve as ``Withheld(reason)`` what is held and not on its way: a stop would cut it off."""

    async def abandon(self, reason: str) -> None:
        """Forget everything unanswered: on return the client holds none of it and will send none of it, and every
        event of it has been resolved as ``Unreachable(reason)``. The publisher stays usable.
        """

    async def close(self) -> None:
        """Abandon what is left and close the connections, within two seconds; never raises."""

    def twin(self) -> Publisher:
        """A new publisher to the same broker, with connections of its own; not open yet.

        Suspects are offered over it, so that a connection that is cut because of one carries no other event. A
        publisher that never reports ``ConnectionCut`` may return itself.
        """


class SingleDestination:
    """The part of a ``Publisher`` about destinations, for one whose destination is one thing."""

    members = NO_MEMBERS

    def take_back(self, reason: str) -> None:
        """See ``Publisher``; for one whose client sends at once."""

    @property
    def blocked(self) -> str:
        """See ``Publisher``; for a broker that never says so."""
        return ""

    def destination_of(self, event: OutboxEvent) -> str:  # noqa: ARG002 -- the same for every event
        """See ``Publisher``."""
        return ""

    async def probe_destination(self: Publisher, destination: str, timeout: float) -> None:  # noqa: ARG002 -- likewise
        """See ``Publisher``."""
        await self.probe(timeout)
