"""What goes wrong in a history, as data: each fault says when it begins, until when it lasts, and whom it may hurt.

``delays``, ``expires`` and ``repeats`` say what the promises allow it to do to events that are not its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from relay.core.event import EventId, OutboxEvent, Status
from tests.support.doubles.memory_storage import MemoryRow
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
class _OneRelay(Fault):
    name: str
    """A relay's name, or empty for all of them."""

    @property
    def relay(self) -> str:
        return self.name


# The database.


@dataclass(frozen=True, slots=True)
class DatabaseAway(_OneRelay):
    """A failover or a restart: connections are lost, and refused until it is back."""

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).away += 1
        world.database.lose_connections(self.name)

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).away -= 1


@dataclass(frozen=True, slots=True)
class DatabaseSilent(_OneRelay):
    """A network that swallows everything."""

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).silent += 1

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).silent -= 1


@dataclass(frozen=True, slots=True)
class DatabaseReadOnly(_OneRelay):
    """A primary that was demoted."""

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).read_only += 1

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).read_only -= 1


@dataclass(frozen=True, slots=True)
class DatabaseSlow(_OneRelay):
    """Every statement takes up to that much longer on each way."""

    seconds: float

    delays = True
    expires = True
    repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).slow += self.seconds

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).slow -= self.seconds


@dataclass(frozen=True, slots=True)
class ReplyLost(_OneRelay):
    """The next statements of a kind are carried out, and the connection is lost."""

    op: str
    count: int

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).replies_lost[self.op] += self.count

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).replies_lost[self.op] = 0


@dataclass(frozen=True, slots=True)
class RequestLost(_OneRelay):
    """The next statements of a kind do not arrive, and the connection is lost."""

    op: str
    count: int

    delays = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).requests_lost[self.op] += self.count

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).requests_lost[self.op] = 0


@dataclass(frozen=True, slots=True)
class Busy(_OneRelay):
    """Statements of a kind that ask for more than ``most`` rows are rolled back every time."""

    op: str
    most: int

    @property
    def delays(self) -> bool:  # type: ignore[override]
        return self.most == 0

    @property
    def expires(self) -> bool:  # type: ignore[override]
        return self.most == 0 and self.op in ("settle", "renew")

    @property
    def repeats(self) -> bool:  # type: ignore[override]
        return self.expires

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).busy[self.op] = self.most

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).busy.pop(self.op, None)


@dataclass(frozen=True, slots=True)
class TableLocked(Fault):
    """LOCK TABLE … ACCESS EXCLUSIVE."""

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.table_locks += 1

    def end(self, world: World) -> None:
        world.database.table_locks -= 1
        world.database.go_on()


@dataclass(frozen=True, slots=True)
class RowsLocked(Fault):
    """Another session locks some rows; those of them that exist then."""

    events: tuple[EventId, ...]

    @property
    def own(self) -> frozenset[EventId]:
        return frozenset(self.events)

    def begin(self, world: World) -> None:
        world.database.lock(self.events)

    def end(self, world: World) -> None:
        world.database.unlock(self.events)


@dataclass(frozen=True, slots=True)
class RowsRefused(Fault):
    """A constraint or trigger refuses some rows in some states."""

    events: tuple[EventId, ...]
    states: tuple[Status, ...]

    @property
    def own(self) -> frozenset[EventId]:
        return frozenset(self.events)

    def begin(self, world: World) -> None:
        world.database.table.refusals.append(self._refuse)

    def end(self, world: World) -> None:
        world.database.table.refusals.remove(self._refuse)

    def _refuse(self, _before: MemoryRow, after: MemoryRow) -> str | None:
        return 'check constraint "odd"' if after.event_id in self.events and after.status in self.states else None


@dataclass(frozen=True, slots=True)
class ClockStep(Fault):
    """The database's clock is set."""

    seconds: float

    delays = True
    expires = True
    repeats = True

    def begin(self, world: World) -> None:
        world.database.skew += self.seconds


# The broker.


@dataclass(frozen=True, slots=True)
class BrokerAway(_OneRelay):
    """It refuses connections."""

    delays = repeats = True

    def begin(self, world: World) -> None:
        world.broker.away[self.name] = world.broker.away.get(self.name, 0) + 1
        world.broker.forget_sessions(self.name)

    def end(self, world: World) -> None:
        world.broker.away[self.name] -= 1


@dataclass(frozen=True, slots=True)
class BrokerSilent(_OneRelay):
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
class SessionForgotten(_OneRelay):
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
        world.broker.late += self.seconds

    def end(self, world: World) -> None:
        world.broker.late -= self.seconds


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


# The relays.


@dataclass(frozen=True, slots=True)
class Kill(_OneRelay):
    """SIGKILL; another of its name starts when it ends."""

    expires = repeats = delays = True

    def begin(self, world: World) -> None:
        world.kill(self.name)

    def end(self, world: World) -> None:
        world.start(self.name)


@dataclass(frozen=True, slots=True)
class Freeze(_OneRelay):
    """SIGSTOP and SIGCONT, or a machine that is suspended."""

    expires = repeats = delays = True

    def begin(self, world: World) -> None:
        world.freeze(self.name)

    def end(self, world: World) -> None:
        world.wake(self.name)


@dataclass(frozen=True, slots=True)
class Stop(_OneRelay):
    """SIGTERM; another of its name starts later, with the settings that come next."""

    delays = repeats = True
    expires = True

    def begin(self, world: World) -> None:
        world.stop(self.name)

    def end(self, world: World) -> None:
        world.start(self.name)


def overlaps(one: Fault, since: float, until: float, aftermath: float) -> bool:
    """Whether the fault, or what it leaves behind, falls into the time from ``since`` to ``until``."""
    return one.at <= until and one.until + aftermath >= since


def hurts(one: Fault, relay: str) -> bool:
    """Whether it may hurt what this relay holds."""
    return one.relay in ("", name_of(relay))


Test = Callable[[Fault], bool]
