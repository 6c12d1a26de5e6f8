"""An application's calls are checked by mypy --strict and pyright, with no driver, with psycopg, with every library."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import patience
from tests.system.packaging.test_client import UV, run

pytestmark = [pytest.mark.packages, pytest.mark.timeout(600)]

CALLS = Path(__file__).parent / "typed"
LIBRARIES = ("sqlalchemy[asyncio]", "asyncpg", "psycopg-pool", "django")
PYRIGHT = "pyright==1.1.414"
STUBS = "asyncpg-stubs>=0.30"
CHECKERS = {
    "mypy": re.compile(r"^(\w+\.py):(\d+): error", re.MULTILINE),
    "pyright": re.compile(r"(\w+\.py):(\d+):\d+ - error"),
}


# What psycopg's calls say stands in everything, and what is said where libraries are missing in base: there mypy
# --strict, which reports an import that it cannot follow, stands for pyright.
PAIRS = [
    ("base", "mypy"),
    ("everything", "mypy"),
    ("everything", "pyright"),
    *(pytest.param(*pair, marks=pytest.mark.soak) for pair in (("base", "pyright"), *product(["psycopg"], CHECKERS))),
]


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client alone, with a driver or with all libraries, and both checkers."""
    folder = tmp_path_factory.mktemp(request.param)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [one for group in ("lint", "test") for one in project["dependency-groups"][group] if isinstance(one, str)]
    chosen = [one for one in groups if one.startswith("mypy==")]
    if request.param != "base":
        chosen += [one for one in project["project"]["dependencies"] if one.startswith("psycopg[")]
    if request.param == "everything":
        chosen += [STUBS, *(one for one in groups if one.split(">")[0] in LIBRARIES)]
    run(UV, "venv", "--quiet", "--python", sys.executable, "venv", cwd=folder)
    python = folder / "venv/bin/python"
    run(UV, "pip", "install", "--quiet", "--python", python, ROOT / "client", PYRIGHT, *chosen, cwd=folder, seconds=200)
    for path in CALLS.glob("*.py" if request.param == "everything" else f"{request.param}_*.py"):
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("environment", "checker"), PAIRS, indirect=["environment"])
def test_right_calls_pass_and_wrong_calls_fail(environment: Path, checker: str) -> None:
    files = sorted(path.name for path in environment.glob("*.py"))
    assert len(files) in {2, 6}
    python = environment / "venv/bin/python"
    options = ["--strict"] if checker == "mypy" else ["--pythonpath", str(python)]
    done = subprocess.run(
        [python, "-m", checker, *options, *files],
        cwd=environment,
        capture_output=True,
        text=True,
        timeout=patience(300),
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    refused = {(name, int(line)) for name, line in CHECKERS[checker].findall(done.stdout)}
    wrong = {
        (name, number)
        for name in files
        for number, line in enumerate((environment / name).read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# wrong")
    }
    assert refused == wrong, done.stdout
