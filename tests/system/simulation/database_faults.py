"""What goes wrong with the database, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relay.core.event import EventId, Status
from relay.core.pause import PauseTarget
from tests.support.doubles.memory_storage import MemoryRow
from tests.system.simulation import commands
from tests.system.simulation.faults import Fault, OneRelay

if TYPE_CHECKING:
    from tests.system.simulation.world import World


@dataclass(frozen=True, slots=True)
class DatabaseAway(OneRelay):
    """A failover or a restart: connections are lost, and refused until it is back."""

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).away += 1
        world.database.lose_connections(self.name)

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).away -= 1


@dataclass(frozen=True, slots=True)
class DatabaseCrash(Fault):
    """The server is killed soon after a claim, loses the commits that no flush has covered, and comes back."""

    after: float
    """Seconds from the claim to the crash."""
    share: float
    """How many of the claims that may be lost are: from the last one backwards."""

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.table.unflushed.on_claim = lambda: self._claimed(world)

    def _claimed(self, world: World) -> None:
        world.database.table.unflushed.on_claim = None
        if world.scheduler.now + self.after < self.until:
            world.scheduler.after(self.after, lambda: self._crash(world))

    def _crash(self, world: World) -> None:
        away = world.database.trouble_of("")
        away.away += 1
        world.database.lose_connections("")
        world.database.table.unflushed.lose(self.share)

        def come_back() -> None:
            away.away -= 1

        world.scheduler.at(self.until, come_back)

    def end(self, world: World) -> None:
        world.database.table.unflushed.on_claim = None


@dataclass(frozen=True, slots=True)
class DatabaseSilent(OneRelay):
    """A network that swallows everything."""

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).silent += 1

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).silent -= 1


@dataclass(frozen=True, slots=True)
class DatabaseReadOnly(OneRelay):
    """A primary that was demoted."""

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).read_only += 1

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).read_only -= 1


@dataclass(frozen=True, slots=True)
class DatabaseSlow(OneRelay):
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
class SlowLink(OneRelay):
    """The link carries that many bytes a second: large payloads take long, and what has no payload does not."""

    rate: float

    delays = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).rate.append(self.rate)

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).rate.remove(self.rate)


@dataclass(frozen=True, slots=True)
class ReplyLost(OneRelay):
    """The next statements of a kind are carried out, and the connection is lost."""

    op: str
    count: int

    delays = expires = repeats = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).replies_lost[self.op] += self.count

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).replies_lost[self.op] = 0


@dataclass(frozen=True, slots=True)
class RequestLost(OneRelay):
    """The next statements of a kind do not arrive, and the connection is lost."""

    op: str
    count: int

    delays = True

    def begin(self, world: World) -> None:
        world.database.trouble_of(self.name).requests_lost[self.op] += self.count

    def end(self, world: World) -> None:
        world.database.trouble_of(self.name).requests_lost[self.op] = 0


@dataclass(frozen=True, slots=True)
class Busy(OneRelay):
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
class Paused(Fault):
    """An operator pauses events: until resumed, or with an end of its own."""

    target: PauseTarget
    has_end: bool

    def begin(self, world: World) -> None:
        commands.pause(world.database, self.target, self.until - self.at if self.has_end else None)

    def end(self, world: World) -> None:
        if self.has_end:
            world.ledger.moved_at = world.scheduler.now
        else:
            commands.resume(world.database, self.target)


@dataclass(frozen=True, slots=True)
class ClockStep(Fault):
    """The database's clock is set."""

    seconds: float

    delays = True
    expires = True
    repeats = True

    def begin(self, world: World) -> None:
        world.database.skew += self.seconds


@dataclass(frozen=True, slots=True)
class Replay(Fault):
    """An operator replays events that are DELIVERED or DEAD then."""

    events: tuple[EventId, ...]

    @property
    def own(self) -> frozenset[EventId]:
        return frozenset(self.events)

    def begin(self, world: World) -> None:
        commands.replay(world.database, self.events)
