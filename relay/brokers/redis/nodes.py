"""The sessions of a Redis publisher: one to the server it starts with, and one to each node of a cluster in use.

A node of a cluster answers an event whose stream belongs elsewhere with ``MOVED`` and the address of its node. The
event is offered there at once, and the next ones of that slot go there directly. While a slot is on its way to another
node, ``ASK`` redirects single events. So any server may turn out to be a node of a cluster, and the slots that no event
uses cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError

from relay.brokers.current_session import CurrentSession
from relay.brokers.entries import resolve
from relay.brokers.redis.errors import classify
from relay.brokers.redis.session import Offer, Redirect, RedisSession
from relay.brokers.redis.shards import Ask, Shards
from relay.brokers.server_address import ServerAddress
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Unreachable
from relay.core.remembered import remembered

_MOST_REDIRECTS: Final = 8
"""Of one event; more of them mean that the nodes disagree about the slot."""

_MOST_SESSIONS: Final = 2
"""For one group of redirected events; the first may be cut because of others."""

_Place = tuple[ServerAddress, bool]
"""A node, and whether events are offered with ASKING."""

Connect = Callable[[ServerAddress | None, Redirect], Coroutine[Any, Any, RedisSession]]


class RedisNodes:
    """Every session that is in use, and what is on its way between two of them."""

    def __init__(self, connect: Connect, ask: Ask) -> None:
        self._connect = connect
        self._shards = Shards(lambda: bool(self._nodes), self.owner_of, ask)
        self._sessions: dict[ServerAddress | None, CurrentSession[RedisSession]] = {}
        self._nodes: dict[int, ServerAddress] = {}
        """The node of each slot that events were redirected for."""
        self._forgotten: set[ServerAddress] = set()
        """Nodes that get nothing until another one names them. What they were offered is theirs still."""
        self.last_streams: dict[ServerAddress | None, str] = {}
        """A stream on each node that events were sent to."""
        self._redirected: dict[_Place, list[Offer]] = {}
        """Events that a task below offers next."""
        self._following: dict[_Place, asyncio.Task[None]] = {}
        """For each node one: a node that is connected to, or hangs, keeps no other one waiting."""
        self._abandoned: Outcome | None = None
        """Set while ``abandon`` runs: what is redirected meanwhile is resolved with it."""

    @property
    def owners(self) -> frozenset[ServerAddress]:
        """The nodes that other ones have named, and no further ones since."""
        return frozenset(self._nodes.values())

    def owner_of(self, event: OutboxEvent) -> ServerAddress | None:
        """The one of them that has the event's stream, even while it does not answer."""
        return self._nodes.get(_slot(event.event_type)) if self._nodes else None

    @property
    def addresses(self) -> frozenset[ServerAddress]:
        """The nodes that events are sent to beside the first server."""
        return self.owners - self._forgotten

    def node_of(self, event: OutboxEvent) -> ServerAddress | None:
        """The node of the event's stream, as far as it is known; None for the first server."""
        node = self.owner_of(event)
        return None if node in self._forgotten else node

    @property
    def first(self) -> RedisSession | None:
        """The session with the first server, while there is one."""
        return self._sessions[None].in_use if None in self._sessions else None

    def forget(self, address: ServerAddress) -> None:
        """Send nothing to this node any more until another one names it."""
        self._forgotten.add(address)

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event to the node of its stream, in order."""
        sink = self._shards.before(sink)
        if not self._nodes:
            if events:
                self.last_streams[None] = events[-1].event_type
            await self._session(None).publish(events, sink)
            return
        groups: dict[ServerAddress | None, list[OutboxEvent]] = {}
        for event in events:
            groups.setdefault(self.node_of(event), []).append(event)
        self.last_streams |= {node: group[-1].event_type for node, group in groups.items()}
        for node in [node for node in groups if node is not None and self._is_connecting(node)]:
            self._offer_later((node, False), [(event, sink, 0) for event in groups.pop(node)])
        # Side by side: a node that is full keeps no other one waiting.
        await asyncio.gather(*(self._session(node).publish(group, sink) for node, group in groups.items()))

    async def abandon(self, reason: str) -> None:
        """End every session; on return every event is resolved, unanswered ones as ``Unreachable(reason)``."""
        self._abandoned = lost = Unreachable(reason)
        sessions, self._sessions = self._sessions, {}
        for current in sessions.values():
            if (session := await current.give_up(reason)) is not None:
                session.end(lost)
                await session.gone()
        if self._following:
            await asyncio.wait(list(self._following.values()))
        self._resolve_redirected(lost)
        await self._shards.abandon(lost)
        self._abandoned = None

    def _session(self, address: ServerAddress | None) -> CurrentSession[RedisSession]:
        if address not in self._sessions:
            self._sessions[address] = CurrentSession(lambda: self._connect(address, self._redirect(address)))
        return self._sessions[address]

    def _redirect(self, source: ServerAddress | None) -> Redirect:
        def redirect(offer: Offer, error: AskError) -> None:
            event, sink, redirects = offer
            # A node that does not know its own name leaves the host empty: it means itself.
            address = ServerAddress(error.host or (source.host if source else ""), error.port)
            if redirects >= _MOST_REDIRECTS or not address.host:
                sink([(event, classify(error))])
                return
            if isinstance(error, MovedError):
                self._nodes[error.slot_id] = address
                self._forgotten.discard(address)
                self.last_streams[address] = event.event_type
            self._offer_later((address, not isinstance(error, MovedError)), [(event, sink, redirects + 1)])

        return redirect

    def _is_connecting(self, address: ServerAddress) -> bool:
        """Whether an offer to this node would wait for a connection, or come before others that do."""
        return self._session(address).in_use is None or (address, False) in self._following

    def _offer_later(self, place: _Place, offers: Sequence[Offer]) -> None:
        self._redirected.setdefault(place, []).extend(offers)
        if place not in self._following:
            self._following[place] = asyncio.get_running_loop().create_task(self._follow(place))

    async def _follow(self, place: _Place) -> None:
        """Offer what there is for a node until nothing is left; the body of a task."""
        while self._abandoned is None and (offers := self._redirected.pop(place, None)):
            await self._offer(*place, offers)
        # No await between the last look and this line: what comes later starts a new task.
        del self._following[place]

    async def _offer(self, address: ServerAddress, asking: bool, offers: Sequence[Offer]) -> None:
        """Offer redirected events to a node; what its session did not send before it was cut, over the next one."""
        try:
            for _ in range(_MOST_SESSIONS):
                if self._abandoned is not None:  # it began after the list was taken: open no session now
                    break
                session = await self._session(address).get()
                if not (offers := await session.follow(offers, asking=asking)):
                    return
            raise BrokerUnreachable(f"{address} cuts each connection before everything is sent")
        except BrokerUnreachable as error:
            lost = self._abandoned or Unreachable(str(error))
            resolve(((event, sink), lost) for event, sink, _ in offers)

    def _resolve_redirected(self, outcome: Outcome) -> None:
        redirected, self._redirected = self._redirected, {}
        resolve(((event, sink), outcome) for offers in redirected.values() for event, sink, _ in offers)


@remembered
def _slot(stream: str) -> int:
    return key_slot(stream.encode())
