"""promtool, Prometheus' own checker: taken from the distribution's package, without installing it.

``promtool()`` returns its path, from PATH or from ``.cache/`` of the checkout. Where neither has it and apt
cannot fetch it, a test is skipped, but fails in continuous integration (``CI=true``), where it must run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

_CACHE = Path(__file__).parents[2] / ".cache" / "promtool"
_FETCH_SECONDS = 90


def promtool() -> str:
    """Path of the program; fetched once."""
    if installed := shutil.which("promtool"):
        return installed
    kept = _CACHE / "promtool"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            _fetch(kept)
    return str(kept)


def _fetch(kept: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        _unavailable("there is no promtool on PATH, and no apt-get to fetch the prometheus package with")
    with tempfile.TemporaryDirectory() as folder:
        try:
            if not _download(folder):
                _run(["apt-get", "update", "-q"], folder)  # package lists may be absent or old
                _run(["apt-get", "download", "prometheus"], folder)
            (package,) = Path(folder).glob("prometheus_*.deb")
            _run(["dpkg", "-x", str(package), folder], folder)
        except (subprocess.SubprocessError, ValueError) as error:
            _unavailable(f"the prometheus package could not be fetched: {error}")
        partial = kept.with_suffix(".partial")
        shutil.copy(Path(folder) / "usr" / "bin" / "promtool", partial)
        partial.rename(kept)


def _download(folder: str) -> bool:
    try:
        _run(["apt-get", "download", "prometheus"], folder)
    except subprocess.CalledProcessError:
        return False
    return True


def _run(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_FETCH_SECONDS)


def _unavailable(why: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
