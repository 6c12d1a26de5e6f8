"""A fork is what the command would be: its environment, folder, arguments, files, signals and exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.forking import ForkedProcess, forks, read_at_start
from tests.support.waiting import patience, wait_until

pytestmark = pytest.mark.process

SEEN = """
import json, os, signal, sys, threading
if "END" in os.environ:
    sys.exit(int(os.environ["END"]))
print(json.dumps({
    "name": __name__, "argv": sys.argv, "path": sys.path, "folder": os.getcwd(), "environment": dict(os.environ),
    "signals": {one.name: str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)},
    "wakes": signal.set_wakeup_fd(-1), "threads": threading.active_count(), "same": sys.modules["__main__"].__name__,
    "files": [int(one) for one in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{one}")],
}))
sys.stdout.flush()
if "STAY" in os.environ:
    signal.pause()
"""

Start = Callable[..., ForkedProcess]


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """Little of it, and a program in the folder."""
    (tmp_path / "seen.py").write_text(SEEN, encoding="utf-8")
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "SETTING": "1"}


@pytest.fixture
def start(environment: Mapping[str, str], tmp_path: Path) -> Start:
    def fork(**more: str) -> ForkedProcess:
        with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
            one = forks(read_at_start(environment))
            return one.start("seen", tmp_path, {**environment, **more}, out.fileno(), err.fileno())

    return fork


def test_a_fork_sees_what_the_command_sees(environment: Mapping[str, str], start: Start, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "seen"]
    done = subprocess.run(command, cwd=tmp_path, env=dict(environment), capture_output=True, check=True, text=True)
    assert start().wait(patience()) == 0
    assert json.loads((tmp_path / "out").read_text()) == json.loads(done.stdout)
    assert (tmp_path / "err").read_text() == done.stderr


def test_exit_codes_and_signals_are_reported(start: Start, tmp_path: Path) -> None:
    assert start(END="3").wait(patience()) == 3
    staying = [start(STAY="1") for _ in range(2)]
    wait_until(lambda: "files" in (tmp_path / "out").read_text(), what="its start")
    with pytest.raises(subprocess.TimeoutExpired):
        staying[0].wait(0.01)
    assert staying[0].poll() is None
    staying[0].send_signal(signal.SIGTERM)
    assert staying[0].wait(patience()) == -signal.SIGTERM
    staying[0].kill()  # of what has ended: another process may have its id
    staying[1].kill()
    assert staying[1].wait(patience()) == staying[1].poll() == -signal.SIGKILL
