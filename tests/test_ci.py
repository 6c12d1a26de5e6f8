"""``.ci/run`` installs the lock; without hashes only where a version is missing, never where a package was changed.

The workflow runs it on each Python that is supported, and hooks before a commit run a part of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.waiting import patience

LOCKED = "LOCKED=1 .venv/.installed"
TESTED = ["check", "test", "container-test"]
MAKE = """#!/bin/sh
echo "$*" >> targets
[ "$1" != LOCKED=1 ] || [ -z "$UV_SAYS" ] || { echo "$UV_SAYS" >&2; exit 2; }
"""


@pytest.mark.parametrize(
    ("uv_says", "code", "targets"),
    [
        ("", 0, [LOCKED, *TESTED]),
        (
            "Because there is no version of attrs==0.0.1, the requirements are unsatisfiable",
            0,
            [LOCKED, ".venv/.installed", *TESTED],
        ),
        ("Hash mismatch for `attrs==26.1.0`", 1, [LOCKED]),
    ],
)
def test_the_lock_is_installed(tmp_path: Path, uv_says: str, code: int, targets: list[str]) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, script in {"make": MAKE, "apt-get": "#!/bin/sh\nexit 1\n", "java": "", "mvn": ""}.items():
        (commands / name).write_text(script)
        (commands / name).chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHON": sys.executable, "UV_SAYS": uv_says, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=patience(), check=False
    )
    assert done.returncode == code, done.stderr
    assert (tmp_path / "targets").read_text().splitlines() == targets
    assert uv_says in done.stderr


def configuration(name: str) -> Any:
    """A file in YAML."""
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_workflow_runs_it_on_each_python_that_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [found.rpartition(" ")[2] for found in project["classifiers"] if " 3." in found]
    job = configuration(".github/workflows/check.yml")["jobs"]["check"]
    assert job["strategy"]["matrix"] == {"python": pythons, "command": [".ci/run", "make lowest"]}
    assert job["container"]["image"] == "python:${{ matrix.python }}-bookworm"
    assert job["steps"][-1] == {"run": "${{ matrix.command }}"}


def test_the_hooks_before_a_commit_run_what_make_check_runs() -> None:
    [own] = configuration(".pre-commit-config.yaml")["repos"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = {hook["id"]: hook["entry"].removeprefix(".venv/bin/").split() for hook in own["hooks"]}
    *_, words = commands.pop("words")
    assert (ROOT / words).is_file()
    assert set(commands) == {"ruff-format", "ruff-check", "sqlfluff"}
    assert all(f"$(BIN)/{' '.join(command[:2])} " in makefile for command in commands.values())
