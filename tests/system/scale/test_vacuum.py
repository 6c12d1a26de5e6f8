"""Fifty million delivered rows, and a transaction that holds the xmin horizon: what claims and prune make of it.

The measurements are those of ``benchmarks.lab.vacuuming``, which does the same at any size; its figures are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.localservers.daemon import python_path
from tests.support.paths import ROOT

pytestmark = [pytest.mark.scale, pytest.mark.postgres, pytest.mark.timeout(14_400)]

ROWS = 50_000_000


def test_fifty_million_delivered_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is asserted is what does not depend on the machine: the size of the table alone costs claims nothing."""
    small, large = measured(tmp_path, 100_000), measured(tmp_path, ROWS)
    with capsys.disabled():
        print(f"\n{ROWS} rows: {json.dumps(large, indent=1)}")
    for held in (0, 1):
        fresh, aged = large["ageing"][held]["points"][0], large["ageing"][held]["points"][-1]
        assert fresh["claim"] < 2 * small["ageing"][held]["points"][0]["claim"]
        assert large["ageing"][held]["after"]["claim"] < max(2 * fresh["claim"], aged["claim"])


def measured(folder: Path, rows: int) -> Any:
    file = folder / f"{rows}.json"
    command = [sys.executable, "-m", "benchmarks.lab.vacuuming", "--only=ageing", "--json", str(file), f"--rows={rows}"]
    subprocess.run(command, cwd=ROOT, env=os.environ | python_path(), check=True, timeout=12_000)
    return json.loads(file.read_text(encoding="utf-8"))
