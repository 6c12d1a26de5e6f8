"""What goes wrong with the broker and the relays, as data.

Each fault says when it begins, until when it lasts, and what it may hurt:
``delays``, ``expires`` and ``repeats`` say what the promises allow it to do to events that are not its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from relay.core.event import EventId, OutboxEvent
from tests.system.simulation.broker import Answer, Client
from tests.system.simulation.database import name_of

if TYPE_CHECKING:
    from tests.system.simulation.world import World

FOR_GOOD = math.inf


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    at: float
    """Seconds after the beginning of the history."""
    until: float
    """When it ends; infinite when it lasts."""

    delays: ClassVar[bool] = False
    """While it lasts, other events may wait."""
    expires: ClassVar[bool] = False
    """Leases of other events may run out."""
    repeats: ClassVar[bool] = False
    """Other events may reach the broker twice."""

    def begin(self, world: World) -> None:
        """It starts."""

    def end(self, world: World) -> None:
        """It is over."""

    @property
    def own(self) -> frozenset[EventId]:
        """The events that it may hold up and fail for as long as it lasts."""
        return frozenset()

    @property
    def relay(self) -> str:
        """The only relay that it hurts; empty when it hurts all."""
        return ""

    def describe(self) -> str:
        """One line."""
        values = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.name not in ("at", "until")]
        return f"{type(self).__name__}({', '.join(values)})"


@dataclass(frozen=True, slots=True)
class OneRelay(Fault):
    """What hurts one relay, or all."""

    name: str
    """A relay's name, or empty for all of them."""

    @property
    def relay(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class BrokerAway(OneRelay):
    """It refuses connections."""

    delays = repeats = True

    def begin(self, world: World) -> None:
        world.broker.away[self.name] = world.broker.away.get(self.name, 0) + 1
        world.broker.forget_sessions(self.name)

    def end(self, world: World) -> None:
        world.broker.away[self.name] -= 1


@dataclass(frozen=True, slots=True)
class BrokerSilent(OneRelay):
    """Nothing gets through to it."""

    delays = repeats = True

    def begin(self, world: World) -> None:
        world.broker.silent[self.name] = world.broker.silent.get(self.name, 0) + 1

    def end(self, world: World) -> None:
        world.broker.silent[self.name] -= 1


@dataclass(frozen=True, slots=True)
class BrokerReadOnly(Fault):
    """It answers and takes no writes."""

    delays = repeats = True

    def begin(self, world: World) -> None:
        world.broker.read_only += 1
        world.broker.forget_sessions("")

    def end(self, world: World) -> None:
        world.broker.read_only -= 1


@dataclass(frozen=True, slots=True)
class SessionForgotten(OneRelay):
    """A restart: connections are cut, what was not answered is forgotten, and it answers again at once."""

    delays = repeats = True

    def begin(self, world: World) -> None:
        world.broker.forget_sessions(self.name)


@dataclass(frozen=True, slots=True)
class LateAnswers(Fault):
    """Answers come up to that many seconds late, but in time."""

    seconds: float

    delays = True

    def begin(self, world: World) -> None:
        world.broker.late.append(self.seconds)

    def end(self, world: World) -> None:
        world.broker.late.remove(self.seconds)


@dataclass(frozen=True, slots=True)
class OutOfOrder(Fault):
    """Answers come in another order."""

    def begin(self, world: World) -> None:
        world.broker.shuffled += 1

    def end(self, world: World) -> None:
        world.broker.shuffled -= 1


@dataclass(frozen=True, slots=True)
class Twice(Fault):
    """Every answer comes twice."""

    def begin(self, world: World) -> None:
        world.broker.twice += 1

    def end(self, world: World) -> None:
        world.broker.twice -= 1


@dataclass(frozen=True, slots=True)
class Answered(Fault):
    """Some events get an answer of their own."""

    events: tuple[EventId, ...]
    answer: Answer

    @property
    def own(self) -> frozenset[EventId]:
        return frozenset(self.events)

    @property
    def delays(self) -> bool:  # type: ignore[override]
        return False

    @property
    def repeats(self) -> bool:  # type: ignore[override]
        return self.answer is Answer.CUT

    def begin(self, world: World) -> None:
        world.broker.rules.append(self._answer)

    def end(self, world: World) -> None:
        world.broker.rules.remove(self._answer)

    def _answer(self, event: OutboxEvent, _client: Client) -> Answer | None:
        return self.answer if event.event_id in self.events else None


@dataclass(frozen=True, slots=True)
class AllRefused(Fault):
    """It refuses whole batches: a change of leaders, or throttling."""

    delays = True

    def begin(self, world: World) -> None:
        world.broker.rules.append(self._answer)

    def end(self, world: World) -> None:
        world.broker.rules.remove(self._answer)

    def _answer(self, _event: OutboxEvent, _client: Client) -> Answer | None:
        return Answer.REFUSE


@dataclass(frozen=True, slots=True)
class DestinationSilent(Fault):
    """One destination never acknowledges."""

    destination: str
    events: tuple[EventId, ...]

    @property
    def own(self) -> frozenset[EventId]:
        return frozenset(self.events)

    def begin(self, world: World) -> None:
        world.broker.rules.append(self._answer)

    def end(self, world: World) -> None:
        world.broker.rules.remove(self._answer)

    def _answer(self, event: OutboxEvent, _client: Client) -> Answer | None:
        return Answer.SILENT if event.event_type == self.destination else None


@dataclass(frozen=True, slots=True)
class DestinationAway(Fault):
    """The server of one destination does not answer, those of the others do."""

    destination: str
    events: tuple[EventId, ...]

    @property
    def own(self) -> frozenset[EventId]:
        return frozenset(self.events)

    def begin(self, world: World) -> None:
        world.broker.rules.insert(0, self._answer)

    def end(self, world: World) -> None:
        world.broker.rules.remove(self._answer)

    def _answer(self, event: OutboxEvent, _client: Client) -> Answer | None:
        return Answer.AWAY if event.event_type == self.destination else None


@dataclass(frozen=True, slots=True)
class Kill(OneRelay):
    """SIGKILL; another of its name starts when it ends."""

    expires = repeats = delays = True

    def begin(self, world: World) -> None:
        world.kill(self.name)

    def end(self, world: World) -> None:
        world.start(self.name)


@dataclass(frozen=True, slots=True)
class Freeze(OneRelay):
    """SIGSTOP and SIGCONT, or a machine that is suspended."""

    expires = repeats = delays = True

    def begin(self, world: World) -> None:
        world.freeze(self.name)

    def end(self, world: World) -> None:
        world.wake(self.name)


@dataclass(frozen=True, slots=True)
class Stop(OneRelay):
    """SIGTERM; another of its name starts later, with the settings that come next."""

    delays = repeats = True
    expires = True

    def begin(self, world: World) -> None:
        world.stop(self.name)

    def end(self, world: World) -> None:
        world.start(self.name)


def hurts(one: Fault, relay: str) -> bool:
    """Whether it may hurt what this relay holds."""
    return one.relay in ("", name_of(relay))
