"""``python -m tests.system.mutants [words of a name]``: says for each mutant which test notices it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.paths import ROOT
from tests.system.mutants.catalogue import ENGINE, SQL, Mutant

_FOLDERS = ("relay", "sql", "cli", "tests")
_FILES = ("pyproject.toml",)
_HISTORIES = "1500"
_ENGINE_TESTS = ("-m", "pytest", "-x", "-q", "-n", "0", "-m", "not server", "tests/engine", "tests/core")
_SQL_TESTS = ("-m", "pytest", "-x", "-q", "-n", "0", "tests/outbox/test_conformance.py", "tests/outbox/test_model.py")
_SIMULATION = ("-m", "tests.system.simulation", "--histories", _HISTORIES, "--processes", "1", "--stop")


def _output(folder: Path, *arguments: str) -> str:
    """What a command prints that fails; empty when it does not."""
    environment = dict(os.environ, PYTHONPATH=f"{folder}{os.pathsep}{folder / 'cli'}", PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode else ""


def _killer(folder: Path, mutant: Mutant) -> str:
    """The test that notices the mutant, which ``folder`` holds; empty when it survives."""
    if mutant in ENGINE:
        for line in _output(folder, *_SIMULATION).splitlines():
            if line.startswith("seed"):
                return f"simulation, {line[:120]}"
    output = _output(folder, *(_ENGINE_TESTS if mutant in ENGINE else _SQL_TESTS))
    return next((line for line in output.splitlines() if line.startswith(("FAILED", "ERROR "))), "")


def _try(folder: Path, mutant: Mutant) -> str:
    path = folder / mutant.path
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        return f"STALE: {mutant.path} holds its line {source.count(mutant.old)} times"
    path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return _killer(folder, mutant) or "SURVIVED"
    finally:
        path.write_text(source, encoding="utf-8")


def main() -> int:
    words = " ".join(sys.argv[1:])
    alive = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in _FOLDERS:
            shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
        for each in _FILES:
            shutil.copy(ROOT / each, folder / each)
        for mutant in (*ENGINE, *SQL):
            if words in mutant.name:
                verdict = _try(folder, mutant)
                alive += verdict == "SURVIVED" or verdict.startswith("STALE")
                print(f"{mutant.name}: {verdict}", flush=True)
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
