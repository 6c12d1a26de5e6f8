"""The programs of ``examples/`` as their docstrings say to run them: processes that know their environment alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.running import environment
from tests.support.paths import ROOT
from tests.support.waiting import patience

FOLDER = ROOT / "examples"

Log = Callable[[], str]

WRITE = bool(os.environ.get("TEST_WRITE"))
"""Write what the programs print, in place of comparing it with what stands beside them."""

_ID = re.compile(r"^\S*\d\S* (?=counted|seen before|dead|failed)")
"""An event's id, or the place of a message that no relay sent."""


def prints(program: str, output: str, topic: str = "order.placed") -> None:
    """Hold ``PROGRAM.txt``, which stands beside the program and has each line once, to the output in any order.

    There ``topic`` is order.placed, and an id ``<id>``.
    """
    beside = Path(program).with_suffix(".txt")
    lines = dict.fromkeys(
        _ID.sub("<id> ", line.rstrip()) for line in output.replace(topic, "order.placed").splitlines()
    )
    if WRITE:
        beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert set(beside.read_text(encoding="utf-8").splitlines()) == set(lines)


@contextmanager
def running(*command: str, **env: str) -> Iterator[Log]:
    """``python`` with these arguments until the end of the block; yields what it has printed so far.

    Fails if it ends before that.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

        def log() -> str:
            with Path(f"/proc/self/fd/{output.fileno()}").open(encoding="utf-8", errors="replace") as reader:
                text = reader.read()
            assert process.poll() is None, f"{command} ended with {process.returncode}:\n{text}"
            return text

        try:
            yield log
            log()
        finally:
            process.kill()
            process.wait(patience())


def finished(*command: str, given: str, **env: str) -> subprocess.CompletedProcess[str]:
    """``python`` with these arguments and this standard input, run to its end."""
    return subprocess.run(
        [sys.executable, *command],
        env=_environment(env),
        input=given,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    return {**environment(**given), "PYTHONUNBUFFERED": "1"}
