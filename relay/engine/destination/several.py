"""One publisher over several destinations, each with a broker, a probe and a state of its own (``member``).

Routing chooses the destination and its name. To the engine the whole is one broker that answers as long as one
destination does: events for the others are ``Away`` meanwhile. Once none answers, all are ``Unreachable``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink
from relay.core.places import Flow, Router
from relay.core.ports import Publisher
from relay.core.proofs import HeldLeases
from relay.engine.destination.assign import assign, restoring
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.fanout import acknowledged_names
from relay.engine.destination.member import Member
from relay.engine.destination.pace import TokenBucket

_CLOSE_WITHIN = 1.9  # seconds
_PROBED_TOGETHER = 16  # at each health check: hundreds of webhook endpoints are not connected to every few seconds
_MOST_NAMED = 10  # in one reason
NO_PACES: Final[Mapping[str, TokenBucket]] = MappingProxyType({})


class SeveralPublishers:
    """``relay.core.ports.Publisher`` over destinations by name."""

    name = "several"
    blocked = ""
    """Each destination says so itself."""

    def __init__(
        self,
        publishers: Mapping[str, Publisher],
        router: Router,
        drops: Drops,
        times: Times,
        paces: Mapping[str, TokenBucket] = NO_PACES,
    ) -> None:
        """``paces`` are the rates of those that have one."""
        self._router = router
        self._paces = paces
        self._drops = drops
        self._times = times
        self.members = {
            name: Member(name, publisher, times, self._any_answers, paces.get(name), self.flow_of)
            for name, publisher in publishers.items()
        }
        self._checks: set[asyncio.Task[None]] = set()
        self._answering = ""
        """The one that answered the last probe."""
        self._turn = 0
        """Whose turn it is to be probed."""

    def _any_answers(self) -> bool:
        return any(not member.reason for member in self.members.values())

    @property
    def keeps_runs(self) -> bool:
        """Whether each of them does, and all events of a type have one destination: a run must have one, too.

        A rate would cut runs.
        """
        together = not (self._router.by_header or self._paces)
        return together and all(member.publisher.keeps_runs for member in self.members.values())

    async def open(self) -> None:
        """Make every client. Raises ConfigError naming the destination."""
        for member in self.members.values():
            try:
                await member.open()
            except ConfigError as error:
                raise ConfigError(f"{member.title}: {error}") from error

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event to its destination. Returns at once: each destination hands over in a task of its own."""
        self._offer(events, sink, None)

    def _offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases | None) -> None:
        assignment = assign(events, self._router, self._drops)
        if assignment.resolved:
            sink(assignment.resolved)
        restored = restoring(sink, assignment)
        for via, sent in assignment.by_via.items():
            self.members[via].offer(sent, restored, holding)

    async def probe(self, timeout: float) -> None:
        """Probe some of them, in turn, and all others when none of those answers; return with the first answer.

        The other probes go on and close their own destinations.
        """
        names = list(self.members)
        turn = names[self._turn :] + names[: self._turn]
        self._turn = (self._turn + _PROBED_TOGETHER) % len(names)
        some = dict.fromkeys([*([self._answering] if self._answering else []), *turn[:_PROBED_TOGETHER]])
        rest = [name for name in names if name not in some]
        reasons: list[str] = []
        for group in (list(some), rest):
            if group and await self._first_answer(group, timeout / 2 if rest else timeout, reasons):
                return
        raise BrokerUnreachable("; ".join(reasons[:_MOST_NAMED]))

    async def _first_answer(self, names: Sequence[str], timeout: float, reasons: list[str]) -> bool:
        """Whether one of them answers; why the others do not is added to ``reasons``."""
        checks = {asyncio.ensure_future(self.members[name].check(timeout)): name for name in names}
        self._checks.update(checks)
        for check in checks:
            check.add_done_callback(self._ended)
        pending = set(checks)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for check in done:
                error = check.exception()
                if error is None:
                    self._answering = checks[check]
                    return True
                reasons.append(f"destination {checks[check]}: {error}")
        return False

    def _ended(self, check: asyncio.Task[None]) -> None:
        self._checks.discard(check)
        if not check.cancelled():
            check.exception()  # the member has said so

    @property
    def flow_of(self) -> Callable[[OutboxEvent], Flow] | None:
        """See ``relay.core.places.FlowTeller``."""
        return self._router.flow_of if self._router.by_header else None

    def destination_of(self, event: OutboxEvent) -> str:
        """Its destination; of several those that have not acknowledged it, with commas between; empty for nowhere."""
        sent = self._router.places(event).sent
        acknowledged = acknowledged_names(event)
        return ",".join(one.via for one in [one for one in sent if one.via not in acknowledged] or sent)

    async def probe_destination(self, destination: str, timeout: float) -> None:
        """Probe the destinations of these names. Raises BrokerUnreachable when one does not answer."""
        names = destination.split(",") if destination else self.members
        await asyncio.gather(*(self.members[name].check(timeout) for name in names))

    def take_back(self, reason: str) -> None:
        """Give back what is not on its way to any of them."""
        for member in self.members.values():
            member.take_back(reason)

    async def abandon(self, reason: str) -> None:
        """Make all of them forget everything unanswered."""
        await asyncio.gather(*(member.abandon(reason) for member in self.members.values()))

    async def close(self) -> None:
        """Close all of them, within two seconds."""
        for check in self._checks:
            check.cancel()
        closing = [asyncio.ensure_future(member.close()) for member in self.members.values()]
        _, late = await asyncio.wait(closing, timeout=_CLOSE_WITHIN)
        for task in late:
            task.cancel()

    def twin(self) -> SeveralPublishers:
        """The same rules over twins of all."""
        twins = {name: member.publisher.twin() for name, member in self.members.items()}
        return type(self)(twins, self._router, self._drops, self._times, self._paces)
