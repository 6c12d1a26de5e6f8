"""``python -m tests.system.mutants [words of a name]``: says of each mutant which test notices it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial

from tests.support.paths import ROOT
from tests.system.mutants.catalogue import MUTANTS
from tests.system.mutants.mutant import Mutant, StaleMutant
from tests.system.mutants.trial import Trial, Verdict, attempt, control
from tests.system.simulation.__main__ import KINDS


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.system.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="try the mutants with these words in their name; default: all")
    parser.add_argument("--list", action="store_true", help="list the mutants and their tests; try none")
    parser.add_argument(
        "--json", action="store_true", help="print the results as JSON; progress goes to standard error"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default: 1)")
    parser.add_argument(
        "--histories", type=int, default=0, metavar="N", help="instead of the tests, play up to N random histories"
    )
    parser.add_argument("--kind", choices=KINDS, default="all", help="of the histories (default: all)")
    return parser.parse_args()


def _check(mutants: Sequence[Mutant]) -> None:
    for mutant in mutants:
        mutant.apply((ROOT / mutant.path).read_text(encoding="utf-8"))


def _try_all(mutants: Sequence[Mutant], jobs: int, histories: int, kind: str) -> list[Trial]:
    trials: list[Trial] = []
    with ThreadPoolExecutor(jobs) as pool:
        for number, trial in enumerate(pool.map(partial(attempt, histories=histories, kind=kind), mutants), 1):
            trials.append(trial)
            line = f"{number} of {len(mutants)} · {trial.verdict} · {trial.name} · {trial.killer or trial.detail}"
            print(f"{line} · {trial.seconds:.0f} s", file=sys.stderr, flush=True)
    return trials if histories else control(trials)


def main() -> int:
    """Try mutants; 0 when each is killed, 1 when one survived or could not be tried, 2 for a mutant to correct."""
    arguments = _arguments()
    words = " ".join(arguments.words)
    mutants = [mutant for mutant in MUTANTS if words in mutant.name]
    try:
        _check(mutants)
    except StaleMutant as error:
        print(error, file=sys.stderr)
        return 2
    if not mutants:
        print(f"no mutant's name contains {words!r}; --list shows them", file=sys.stderr)
        return 2
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name}\n    {mutant.path}\n    {' '.join(mutant.tests)}")
        return 0
    trials = _try_all(mutants, arguments.jobs, arguments.histories, arguments.kind)
    if arguments.json:
        print(json.dumps([asdict(trial) for trial in trials], indent=2))
    for trial in trials:
        if trial.verdict is Verdict.FAULTY:
            print(f"{trial.verdict} · {trial.name} · {trial.killer} {trial.detail}", file=sys.stderr)
    killed = sum(trial.verdict is Verdict.KILLED for trial in trials)
    print(f"{killed} of {len(trials)} mutants killed", file=sys.stderr)
    return 0 if killed == len(trials) else 1


if __name__ == "__main__":
    sys.exit(main())
