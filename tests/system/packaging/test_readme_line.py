"""The line of the README that installs a relay, run by a shell in an empty environment."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from hatch_build import full_version
from relay.version import __version__
from tests.support.paths import ROOT
from tests.system.packaging.test_client import UV, run

pytestmark = pytest.mark.packages

PIP = f'pip() {{ shift; "{UV}" pip install --quiet --no-sources --python "$PYTHON" "$@"; }}\n'
"""uv in the place of pip, which takes minutes on a busy machine; without what uv alone reads from pyproject.toml."""


def test_it_installs_a_relay_with_its_client_and_a_broker(tmp_path: Path) -> None:
    (line,) = re.findall(r"^pip install .*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    run(UV, "venv", "--quiet", "--python", sys.executable, "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    run("bash", "-ec", f"PYTHON={python}\n{PIP}{line}", cwd=ROOT)
    assert full_version(ROOT) in run(python.parent / "relay", "--version", cwd=tmp_path)
    program = "import confluent_kafka, openoutbox, relay; print(openoutbox.__version__, *relay.__path__)"
    version, folder = run(python, "-c", program, cwd=tmp_path).split()
    assert version == __version__
    assert Path(folder).is_relative_to(tmp_path)
