"""Prometheus' own tool accepts the shipped configuration and rules, and its tests of the alerts hold."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.servers.promtool import promtool
from tests.support.waiting import patience

pytestmark = pytest.mark.prometheus

FOLDER = ROOT / "deploy" / "prometheus"


def run(*arguments: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    """Run promtool in a folder of rules."""
    return subprocess.run(
        [promtool(), *arguments], cwd=folder, capture_output=True, text=True, timeout=patience(), check=False
    )


def test_the_configuration_and_its_rules_are_valid() -> None:
    done = run("check", "config", "--lint=all", "--lint-fatal", "prometheus.yaml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout


@pytest.mark.parametrize("tests", sorted(path.name for path in (FOLDER / "tests").glob("*.yaml")))
def test_the_alerts_fire_when_they_should(tests: str) -> None:
    done = run("test", "rules", f"tests/{tests}")

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_moved_threshold_fails_the_tests_of_the_alerts(tmp_path: Path) -> None:
    for path in FOLDER.rglob("*.yaml"):
        copy = tmp_path / path.relative_to(FOLDER)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8").replace("openoutbox_relay_state == 2", "vector(0) > 0"))

    assert run("test", "rules", "tests/relays.yaml", folder=tmp_path).returncode == 1
