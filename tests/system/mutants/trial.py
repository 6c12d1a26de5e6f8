"""Try a mutant: in a copy of the checkout, change its line and run the tests that must notice it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.support.paths import CACHE, ROOT
from tests.system.mutants.mutant import Mutant

_LONGEST_RUN: Final = 900.0  # seconds for the tests of one mutant
_TEST_LIMIT: Final = 120  # seconds for one test: a mutant may hang it
_NOT_COPIED: Final = (".*", "benchmarks", "examples")
_PYTEST: Final = (
    *("-m", "pytest", "-q", "-rf", "-n", "0", "--tb", "no", "-p", "no:cacheprovider"),
    *("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "xdist.plugin"),
    *("--timeout", str(_TEST_LIMIT), "-m"),
)
_TESTED: Final = "not scale and not soak"
FAST: Final = f"{_TESTED} and not server and not histories"
"""The tests of ``make check``."""
_SIMULATION: Final = ("-m", "tests.system.simulation", "--processes", "1", "--stop", "--histories")


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    FAULTY = "faulty"
    """The trial proves nothing: tests could not run, or the one that failed also fails without the mutant."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one mutant."""

    name: str
    path: str
    verdict: Verdict
    killer: str
    """The test that failed, or the history that broke a promise; empty when none did."""
    detail: str
    seconds: float


def attempt(mutant: Mutant, histories: int = 0, kind: str = "all", marks: str = _TESTED) -> Trial:
    """Try one mutant on its tests, or on that many random histories of a kind instead. Raises StaleMutant."""
    began = time.monotonic()
    with _copy() as folder:
        path = folder / mutant.path
        source = path.read_text(encoding="utf-8")
        path.write_text(mutant.apply(source), encoding="utf-8")
        if histories:
            verdict, killer, detail = _simulate(folder, histories, kind)
        else:
            verdict, killer, detail = _run_tests(folder, mutant.tests, marks)
    return Trial(mutant.name, mutant.path, verdict, killer, detail, round(time.monotonic() - began, 1))


def control(trials: Sequence[Trial], marks: str = _TESTED) -> list[Trial]:
    """Run the tests that killed mutants without any mutant: one that fails again has killed nothing."""
    killers = sorted({trial.killer for trial in trials if trial.verdict is Verdict.KILLED})
    if not killers:
        return list(trials)
    with _copy() as folder:
        run = _run(folder, *_PYTEST, marks, *killers)
    failed = {line.partition(" ")[2].partition(" - ")[0] for line in _failures(run)}
    if run.returncode and not failed:
        raise RuntimeError(f"the tests do not run without a mutant: {' | '.join(_last_lines(run))}")
    return [
        replace(trial, verdict=Verdict.FAULTY, detail="fails without the mutant, too")
        if trial.killer in failed
        else trial
        for trial in trials
    ]


@contextmanager
def _copy() -> Iterator[Path]:
    """A copy of the checkout, with its compiled modules and downloads."""
    with TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name) / "checkout"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        if CACHE.exists():
            (folder / CACHE.name).symlink_to(CACHE)
        yield folder


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Before the installed packages, in processes that a test starts, too.
    paths = os.pathsep.join(str(path) for path in (folder, folder / "cli", folder / "client"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=_LONGEST_RUN,
        check=False,
    )


def _run_tests(folder: Path, tests: tuple[str, ...], marks: str) -> tuple[Verdict, str, str]:
    """Verdict, the first test that failed, and what it said."""
    try:
        run = _run(folder, *_PYTEST, marks, "-x", *tests)
    except subprocess.TimeoutExpired:
        return Verdict.FAULTY, "", f"no end within {_LONGEST_RUN:g} s"
    if run.returncode == 0:
        return Verdict.SURVIVED, "", ""
    failures = _failures(run)
    if run.returncode != 1 or not failures:
        return Verdict.FAULTY, "", f"pytest ended with {run.returncode}: {' | '.join(_last_lines(run))}"
    killer, _, detail = failures[0].removeprefix("FAILED ").partition(" - ")
    return Verdict.KILLED, killer, detail[:200]


def _failures(run: subprocess.CompletedProcess[str]) -> list[str]:
    """Failed tests; not those whose fixtures or collection failed, which prove nothing."""
    return [line for line in run.stdout.splitlines() if line.startswith("FAILED ")]


def _last_lines(run: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in (run.stdout + run.stderr).splitlines() if line.strip()][-3:]


def _simulate(folder: Path, histories: int, kind: str) -> tuple[Verdict, str, str]:
    try:
        run = _run(folder, *_SIMULATION, str(histories), "--kind", kind)
    except subprocess.TimeoutExpired:
        return Verdict.FAULTY, "", f"no end within {_LONGEST_RUN:g} s"
    for line in run.stdout.splitlines():
        if line.startswith("seed "):
            seed, _, detail = line.partition(": ")
            return Verdict.KILLED, f"history of {seed}", detail[:200]
    if run.returncode:
        return Verdict.FAULTY, "", f"the simulation ended with {run.returncode}: {' | '.join(_last_lines(run))}"
    return Verdict.SURVIVED, "", ""
