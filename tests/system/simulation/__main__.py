"""Play histories: ``python -m tests.system.simulation --histories 1000``, or one with ``--seed 7``.

A long search says which seed is next: ``--first`` goes on from there.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count as numbers_from
from itertools import islice

from relay.app.collector import set_collector
from tests.system.simulation.draw import draw
from tests.system.simulation.fan_out import FanOutWorld, draw_fan_out
from tests.system.simulation.laws import LawWorld, draw_law
from tests.system.simulation.plan import Plan
from tests.system.simulation.proven_copies import ProvenWorld, draw_proven
from tests.system.simulation.shrink import shrink
from tests.system.simulation.transactions import TransactionalWorld, draw_transactions
from tests.system.simulation.world import Result, World, play

KINDS: dict[str, tuple[Callable[[int], Plan], type[World]]] = {
    "all": (draw, World),
    "fan-out": (draw_fan_out, FanOutWorld),
    "laws": (draw_law, LawWorld),
    "transactions": (draw_transactions, TransactionalWorld),
    "proven-copies": (draw_proven, ProvenWorld),
}
"""What is played: a whole fleet, events for two brokers each, one of two brokers in trouble for good; exactly once into
a broker with transactions, alone and beside another one."""
SEVERAL = ("laws", "fan-out")
"""The kinds with several destinations: seeds take turns."""


def play_seed(seed: int, kind: str) -> Result:
    """Play one seed."""
    draw_one, world = KINDS[SEVERAL[seed % 2] if kind == "several" else kind]
    return play(draw_one(seed), world)


def one(seed: int, kind: str = "all") -> tuple[int, str]:
    """Play one seed; the violation, or an empty text."""
    violation = play_seed(seed, kind).violation
    return seed, "" if violation is None else f"{type(violation).__name__}: {violation}"


def show(seed: int, kind: str = "all") -> bool:
    """Play one seed and print its history, shrunk when it fails."""
    result = play_seed(seed, kind)
    if result.violation is not None:
        result = shrink(result)
    print(result.text())
    return result.violation is None


def seeds(first: int, *, away: bool) -> Iterator[int]:
    """Seeds from the first one on; with ``away`` those whose history has a destination that is away."""
    return (seed for seed in numbers_from(first) if not away or draw(seed).away)


def many(first: int, count: int, processes: int, *, stop: bool = False, away: bool = False, kind: str = "all") -> int:
    """Play that many seeds; the number of violations. With ``stop`` the first one ends it."""
    failed: list[tuple[int, str]] = []
    began = said = time.monotonic()
    with multiprocessing.Pool(processes, set_collector) as pool:
        chosen = islice(seeds(first, away=away), count)
        for number, (seed, violation) in enumerate(pool.imap(partial(one, kind=kind), chosen, 50), 1):
            if violation:
                failed.append((seed, violation))
                print(f"seed {seed}: {violation}", flush=True)
                if stop:
                    break
            now = time.monotonic()
            if now - said > 10 or number == count:
                said = now
                pace = number / (now - began) * 60
                done = f"{number} of {count} histories, {len(failed)} violations, {pace:,.0f} a minute"
                print(f"{done}, next seed {seed + 1}", flush=True)
    return len(failed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stop", action="store_true", help="end with the first violation")
    parser.add_argument("--away", action="store_true", help="only histories with a destination that is away")
    parser.add_argument("--kind", choices=[*KINDS, "several"], default="all")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return 0 if show(arguments.seed, arguments.kind) else 1
    first, histories, processes = arguments.first, arguments.histories, arguments.processes
    options = {"stop": arguments.stop, "away": arguments.away, "kind": arguments.kind}
    return 1 if many(first, histories, processes, **options) else 0


if __name__ == "__main__":
    sys.exit(main())
