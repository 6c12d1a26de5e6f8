"""The client as an application gets it: one package, beside the application's own versions of libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import DEADLINE, patience

pytestmark = pytest.mark.packages

UV = shutil.which("uv", path=sysconfig.get_path("scripts")) or "uv"


def run(*command: str | Path, cwd: Path, seconds: float = DEADLINE) -> str:
    # Without this checkout, which a test that ran before may have put there, and without the options of this pytest.
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTEST_ADDOPTS"}}
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=patience(seconds), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_client_brings_one_package_and_works_beside_an_old_fastapi(tmp_path: Path) -> None:
    run(UV, "build", "--quiet", "--out-dir", tmp_path, ROOT / "client", cwd=tmp_path)
    run(UV, "venv", "--quiet", "--python", sys.executable, "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    (wheel,) = tmp_path.glob("*.whl")
    program = "import openoutbox; print(len(openoutbox.create_statements() + openoutbox.inbox_statements()))"
    run(UV, "pip", "install", "--quiet", "--python", python, wheel, cwd=tmp_path)
    packages = run(UV, "pip", "freeze", "--python", python, cwd=tmp_path).split("\n")
    assert [line.partition(" ")[0] for line in packages if line] == ["openoutbox-client"]
    assert run(python, "-c", program, cwd=tmp_path) == "9\n"
    others = ("fastapi==0.115.0", "pydantic==2.5")
    run(UV, "pip", "install", "--quiet", "--python", python, wheel, *others, cwd=tmp_path)
    assert run(python, "-c", program, cwd=tmp_path) == "9\n"
