"""Run ``relay-cli`` in an empty folder, so that no ``.env`` is found: as a process, or in this one.

A process start costs more than most commands do, so tests of what a command says call it in this process; the
documents' commands (``tests/system/acceptance/test_documents.py``) and the contract's start it as an operator does.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from relay_cli.run import run
from tests.support.times import other_times
from tests.support.waiting import patience

COMMAND = [sys.executable, "-c", "from relay_cli.main import main; main()"]

_OURS = ("STORAGE_", "PUBLISHER_", "DELIVERY_LOG_", "LEASE_", "KAFKA_", "NATS_", "REDIS_", "RETRY_")


def environment(**variables: str) -> Mapping[str, str]:
    """The process's own, without the relay's variables but those given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    inherited["PYTHONPATH"] = os.pathsep.join(str(Path(path).resolve()) for path in (".", "cli", "client"))
    return {**inherited, **variables}


def run_cli(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, as a process; variables by keyword."""
    return run_program([*COMMAND, *arguments], folder, **variables)


def run_program(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run another program of the project to its end, likewise."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )


def call_cli(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end in this process, with the environment and folder that ``run_cli`` would give it.

    It runs in a thread: commands start an event loop, and a test's own may be running in this one.
    """
    command = ["relay-cli", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment(**variables), clear=True),
        patch.object(sys, "argv", command),
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = _in_thread(_exit_code)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def _in_thread(work: Callable[[], int]) -> int:
    """What ``work`` returns or raises; TimeoutError where it does not end: its thread does not hold up the run."""
    outcome: Future[int] = Future()

    def note() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in the test
            outcome.set_exception(error)

    threading.Thread(target=note, daemon=True).start()
    return outcome.result(patience())


def _exit_code() -> int:
    try:
        return run()
    except SystemExit as end:  # argparse's, of Spark's jobs
        return int(end.code or 0)


def answer(folder: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    """What ``--json`` prints; fails unless the command succeeds without a word on standard error."""
    done = call_cli(folder, *arguments, "--json", **variables)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert other_times(done.stdout) == []
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed
