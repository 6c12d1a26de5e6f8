"""The outbox in memory and a real PostgreSQL do the same: random sequences of calls, results and tables compared.

The simulation of ``tests/system/simulation`` proves as much as its model of the table is true. A script is drawn from
its seed before anything runs, and played on both; every call's result and every row after it must agree.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pytest

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, Fence
from relay.core.storage import OutboxStorage, Settlement
from relay.outbox.outbox_options import KeyOrder
from tests.outbox.harness import DELETED, MemoryHarness, PostgresHarness, StorageHarness
from tests.support.fixtures.outbox import Outbox

SCRIPTS: Final = 4
STEPS: Final = 40
RELAY_IDS: Final = ("twin", "twin", "other")
DELETERS: Final = (1, 2)
"""Where relays delete what is delivered, these do, and the first one, a twin of the second, keeps it."""
RETRY: Final = RetryPolicy(max_attempts=3, base_delay=130.0, max_delay=310.0, jitter=0.0)
ADVANCES: Final = (25.0, 50.0, 150.0)
"""Their sums are at least five seconds away from a lease (60 s) and from every delay: what statements take is less."""
CLOSE: Final = 4.0  # seconds


class Step(NamedTuple):
    """One call, with numbers that are read modulo what exists when it runs."""

    kind: str
    numbers: tuple[int, ...]


_KINDS: Final = (
    ("insert",) * 3 + ("claim",) * 4 + ("settle",) * 4 + ("renew",) * 2 + ("reap", "advance", "lock", "unlock")
)


def draw(seed: int) -> list[Step]:
    rng = random.Random(seed)
    return [Step(rng.choice(_KINDS), tuple(rng.randrange(1000) for _ in range(8))) for _ in range(STEPS)]


@dataclass(slots=True)
class Lease:
    """What one claim returned, kept after it is gone."""

    relay: int
    fence: Fence
    ids: list[EventId]


@dataclass(slots=True)
class Player:
    """One harness under a script."""

    harness: StorageHarness
    relays: list[OutboxStorage]
    names: dict[EventId, int] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    locks: ExitStack = field(default_factory=ExitStack)

    async def play(self, script: list[Step]) -> list[tuple[Step, Any, list[dict[str, Any]]]]:
        transcript = []
        with self.locks:
            for step in script:
                call: Callable[[tuple[int, ...]], Any] = getattr(self, step.kind)
                result = await call(step.numbers)
                transcript.append((step, result, [self.row(one) for one in self.names]))
        return transcript

    async def insert(self, numbers: tuple[int, ...]) -> None:
        for number in numbers[: 1 + numbers[7] % 4]:
            key = f"k{number % 3}" if number % 2 else None
            due_in, attempts = (0.0, -10.0, 130.0)[number % 3], (0, 0, 1, 2)[number % 4]
            one = self.harness.insert(b"x" * (number % 400), due_in=due_in, attempts=attempts, key=key)
            self.names[one] = len(self.names)

    async def claim(self, numbers: tuple[int, ...]) -> list[tuple[Any, ...]]:
        relay = numbers[0] % 3
        claim = await self.relays[relay].claim(1 + numbers[1] % 6, 100 + numbers[2])
        if claim.fence is not None:
            self.leases.append(Lease(relay, claim.fence, [event.event_id for event in claim.events]))
        return [
            (self.names[one.event_id], one.partition_key, len(one.payload), one.headers, one.attempts)
            for one in claim.events
        ]

    async def settle(self, numbers: tuple[int, ...]) -> list[Any]:
        settlements = []
        settler = numbers[0] % 3
        for lease in self._some(numbers[1:3]):
            one = Settlement(lease.fence)
            for event_id, number in zip(lease.ids, numbers[3:], strict=False):
                match number % 5:
                    case 0 | 1:
                        one.delivered.append(event_id)
                    case 2:
                        one.retried.append((event_id, "BROKER: busy", 130.0))
                    case 3:
                        one.buried.append((event_id, "TOO_LARGE: no"))
                    case _:
                        one.released.append(event_id)
            settlements.append(one)
            settler = lease.relay if numbers[0] % 4 else settler
        settled = await self.relays[settler].settle(settlements)
        return [(*one[:4], self._numbers(one.locked)) for one in settled]

    async def renew(self, numbers: tuple[int, ...]) -> list[Any]:
        results = []
        for lease in self._some(numbers[:1]):
            renewal = await self.relays[lease.relay].renew(lease.fence, lease.ids)
            if renewal.held and renewal.unchanged:  # two fences from here on, as the engine keeps them
                self.leases.append(
                    Lease(lease.relay, lease.fence, sorted(renewal.unchanged, key=self.names.__getitem__))
                )
                lease.ids = [one for one in lease.ids if one not in renewal.unchanged]
            assert (renewal.fence > lease.fence) is bool(renewal.held)
            lease.fence = renewal.fence
            results.append((self._numbers(renewal.held), self._numbers(renewal.unchanged)))
        return results

    async def reap(self, numbers: tuple[int, ...]) -> Any:
        return await self.relays[numbers[0] % 3].reap(1 + numbers[1] % 4)

    async def advance(self, numbers: tuple[int, ...]) -> None:
        await self.unlock(numbers)
        seconds = ADVANCES[numbers[0] % len(ADVANCES)]
        self.harness.advance(seconds)
        for lease in self.leases:
            lease.fence = self.harness.aged(lease.fence, seconds)

    async def lock(self, numbers: tuple[int, ...]) -> None:
        await self.unlock(numbers)
        ids = list(self.names)
        chosen = {ids[number % len(ids)] for number in numbers[:3]} if ids else set()
        self.locks.enter_context(self.harness.lock(*sorted(chosen)))

    async def unlock(self, numbers: tuple[int, ...]) -> None:
        self.locks.close()

    def row(self, one: EventId) -> dict[str, Any]:
        """A row as far as the two can agree: times by their distance, fences by their lease."""
        if self.harness.status(one) == DELETED:
            return {"status": DELETED}
        row = self.harness.row(one)
        fences = [place for place, lease in enumerate(self.leases) if lease.fence == row["locked_at"]]
        return {
            "status": str(row["status"]),
            "attempts": row["attempts"],
            "last_error": re.sub(r" at [-0-9T: .+Z]+$", "", row["last_error"] or ""),
            "locked_by": row["locked_by"],
            "fence": fences,
            "delivered": row["delivered_at"] is not None,
            "available_after": (row["available_at"] - row["created_at"]).total_seconds(),
            "changed_after": (row["updated_at"] - row["created_at"]).total_seconds(),
        }

    def _some(self, numbers: tuple[int, ...]) -> list[Lease]:
        """Leases that the numbers choose, once each; late ones more often, since they are more often valid."""
        chosen = {
            len(self.leases) - 1 - number % min(len(self.leases), 3 + number % 5) for number in numbers if self.leases
        }
        return [self.leases[place] for place in sorted(chosen)]

    def _numbers(self, ids: frozenset[EventId]) -> list[int]:
        return sorted(self.names[one] for one in ids)


def differences(one: Any, other: Any) -> Iterator[str]:
    for (step, here, rows), (_, there, others) in zip(one, other, strict=True):
        if here != there:
            yield f"{step}: {here} in memory, {there} in PostgreSQL"
        for number, (row, its_twin) in enumerate(zip(rows, others, strict=True)):
            for name, value in row.items():
                twin = its_twin.get(name)
                times = isinstance(value, float) and isinstance(twin, float)
                same = abs(value - twin) < CLOSE if times else value == twin
                if not same:
                    yield f"after {step}, row {number}: {name} is {value} in memory, {twin} in PostgreSQL"


def play(harness: StorageHarness, script: list[Step], loop: asyncio.Runner) -> list[Any]:
    relays, deletes = [], harness.delete_delivered
    for number, relay_id in enumerate(RELAY_IDS):
        harness.delete_delivered = deletes and number in DELETERS
        relays.append(harness.relay(relay_id, RETRY))
    harness.delete_delivered = deletes
    return loop.run(Player(harness, relays).play(script))


@pytest.mark.parametrize("deletes", [False, True], ids=["keep", "delete"])
@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP, KeyOrder.BLOCK], ids=["unordered", "skip", "block"])
def test_memory_and_postgresql_do_the_same(
    outbox: Outbox, key_order: KeyOrder | None, deletes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.outbox.reaping.CHEAP", float("inf"))  # time passes by moving rows
    with asyncio.Runner() as loop, ExitStack() as cleanup:
        harness = PostgresHarness(outbox, key_order, delete_delivered=deletes)
        cleanup.callback(lambda: loop.run(harness.close()))
        for seed in range(SCRIPTS):
            script = draw(seed)
            harness.empty()
            in_postgres = play(harness, script, loop)
            in_memory = play(MemoryHarness(key_order, delete_delivered=deletes), script, loop)
            different = next(differences(in_memory, in_postgres), None)
            assert different is None, f"script {seed}: {different}"
