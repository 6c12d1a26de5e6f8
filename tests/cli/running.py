"""Run ``relay-cli`` as an operator does: a process in an empty folder, so that no ``.env`` is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from relay_cli.main import main; main()"]

_OURS = ("STORAGE_", "PUBLISHER_", "LEASE_", "KAFKA_", "NATS_", "REDIS_", "RETRY_")


def environment(**given: str) -> Mapping[str, str]:
    """The process's own, without the relay's variables but those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    kept["PYTHONPATH"] = os.pathsep.join(str(Path(path).resolve()) for path in (".", "cli"))
    return {**kept, **given}


def run_cli(folder: Path, *arguments: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end; variables by keyword."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(**given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def answer(folder: Path, *arguments: str, **given: str) -> dict[str, Any]:
    """What ``--json`` prints; fails unless the command succeeds without a word on standard error."""
    done = run_cli(folder, *arguments, "--json", **given)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed
