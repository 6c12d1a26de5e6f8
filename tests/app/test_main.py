"""``python -m relay`` when it ends before the relay runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import patience

INTERRUPT = """
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from relay.__main__ import main
sys.exit(main())
"""
"""Ctrl-C at the moment when a module is imported."""


def run_relay(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT), **env},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )


@pytest.mark.parametrize("module", ["relay.telemetry.logs", "relay.settings.settings", "uvloop", "relay.engine.relay"])
def test_ctrl_c_while_it_starts_ends_it_without_a_traceback(module: str) -> None:
    done = run_relay(INTERRUPT.format(module), STORAGE_URL="postgres://u@127.0.0.1:1/d", PUBLISHER_TYPE="null")

    assert (done.returncode, done.stderr) == (130, "")


def test_without_storage_url_it_shows_how_to_write_one() -> None:
    done = run_relay("from relay.__main__ import main; import sys; sys.exit(main())")

    assert done.returncode == 2
    assert "STORAGE_URL is not set; write postgres://host:5432/database?user=name" in done.stderr
