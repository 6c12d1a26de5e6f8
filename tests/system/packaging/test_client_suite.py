"""The client's tests run on its built wheel, with each driver, where no relay can be imported."""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import patience
from tests.system.packaging.test_client import UV, run

pytestmark = [pytest.mark.packages, pytest.mark.timeout(600)]

TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis")
DRIVERS = ("asyncpg", "psycopg-pool", "psycopg2-binary", "sqlalchemy[asyncio]", "django", "msgspec")
PLUGIN = "tests/support/fixtures/database.py"

CONFTEST = """
import importlib.util
import pytest
import openoutbox

pytest_plugins = ["tests.support.fixtures.database"]
assert importlib.util.find_spec("relay") is None
assert "site-packages" in openoutbox.__file__


@pytest.fixture(scope="session")
def postgres():
    return {url!r}
"""


EACH_DRIVER = (
    "test_every_column_arrives_as_given",
    "test_an_effect_happens_once",
    "test_what_the_transaction_announced_is_seen_and_not_committed",
    "test_django_cases_see_their_own_events_alone",
    "test_the_fixture_of_pytest",
)
"""What each driver does once: the rest, which the checkout runs as well, differs in nothing that the wheel brings."""
FILES = [f"tests/client/test_{name}.py" for name in ("enqueue", "inbox", "testing")]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["-n", "0", "-k", " or ".join(EACH_DRIVER), *FILES], id="each driver"),
        pytest.param(["-n", "2", "tests/client"], id="all", marks=pytest.mark.soak),
    ],
)
def test_it_passes_with_each_driver_and_no_relay(postgres: str, tmp_path: Path, options: list[str]) -> None:
    """All of it runs in the checkout as well."""
    python = environment(tmp_path)
    suite = tmp_path / "suite"
    shutil.copytree(ROOT / "tests/client", suite / "tests/client", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "tests/__init__.py", "tests/support/__init__.py", "tests/support/spans.py", PLUGIN):
        target = suite / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    # Of waiting, what these tests use, without the relay's own module.
    waits = (ROOT / "relay/localservers/waiting.py").read_text(encoding="utf-8")
    waits = waits.replace("deadline: float = 10.0", f"deadline: float = {patience()}")
    waits += f"\n\ndef patience(seconds: float = 10.0) -> float:\n    return seconds * {patience(1.0)}\n"
    (suite / "tests/support/waiting.py").write_text(waits, encoding="utf-8")
    (suite / "conftest.py").write_text(CONFTEST.format(url=postgres), encoding="utf-8")

    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *options)
    output = run(python, *command, cwd=suite, seconds=400)

    summary = output.rstrip().rpartition("\n")[2]
    print(f"\n{summary}")
    assert int(summary.partition(" passed")[0]) > 30
    assert "skipped" not in summary


def environment(folder: Path) -> Path:
    """One with the client's wheel, the test tools and the drivers, in the versions that the checkout is tested with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    tested = [one for one in project["dependency-groups"]["test"] if isinstance(one, str)]
    chosen = [one for one in tested if one.split(">")[0] in TOOLS + DRIVERS]
    assert len(chosen) == len(TOOLS + DRIVERS)
    chosen += [one for one in project["project"]["dependencies"] if one.startswith(("psycopg[", "pydantic>"))]
    chosen += [one for one in extras["otel"] if one.startswith("opentelemetry-sdk")]
    run(UV, "build", "--quiet", "--out-dir", folder, ROOT / "client", cwd=folder)
    run(UV, "venv", "--quiet", "--python", sys.executable, "venv", cwd=folder)
    python = folder / "venv/bin/python"
    (wheel,) = folder.glob("*.whl")
    run(UV, "pip", "install", "--quiet", "--python", python, wheel, *chosen, cwd=folder)
    return python
