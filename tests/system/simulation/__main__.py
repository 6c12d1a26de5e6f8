"""Play histories: ``python -m tests.system.simulation --histories 1000``, or one with ``--seed 7``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time

from tests.system.simulation.draw import draw
from tests.system.simulation.shrink import shrink
from tests.system.simulation.world import play


def one(seed: int) -> tuple[int, str]:
    """Play one seed; the violation, or an empty text."""
    violation = play(draw(seed)).violation
    return seed, "" if violation is None else f"{type(violation).__name__}: {violation}"


def show(seed: int) -> bool:
    """Play one seed and print its history, shrunk when it fails."""
    result = play(draw(seed))
    if result.violation is not None:
        result = shrink(result)
    print(result.text())
    return result.violation is None


def many(first: int, count: int, processes: int, *, stop: bool = False) -> int:
    """Play a range of seeds; the number of violations. With ``stop`` the first one ends it."""
    failed: list[tuple[int, str]] = []
    began = said = time.monotonic()
    with multiprocessing.Pool(processes) as pool:
        for number, (seed, violation) in enumerate(pool.imap_unordered(one, range(first, first + count), 50), 1):
            if violation:
                failed.append((seed, violation))
                print(f"seed {seed}: {violation}", flush=True)
                if stop:
                    break
            now = time.monotonic()
            if now - said > 10 or number == count:
                said = now
                pace = number / (now - began) * 60
                print(f"{number} of {count} histories, {len(failed)} violations, {pace:,.0f} a minute", flush=True)
    return len(failed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stop", action="store_true", help="end with the first violation")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return 0 if show(arguments.seed) else 1
    return 1 if many(arguments.first, arguments.histories, arguments.processes, stop=arguments.stop) else 0


if __name__ == "__main__":
    sys.exit(main())
