"""Programs from the distribution's packages, taken out of them without installing anything.

They are kept in ``.cache/`` of the checkout. Where a program is neither on PATH nor there and apt cannot fetch it, a
test is skipped, but fails in continuous integration (``CI=true``), where it must run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from relay.localservers.process import remove
from tests.support.paths import CACHE

_CACHE = CACHE / "debian"
_FETCH_SECONDS = 90


def program(path: str, packages: Sequence[str]) -> Path:
    """The program that lies at ``path`` in the first of ``packages``; the others bring the libraries it needs."""
    name = Path(path).name
    if installed := shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        return Path(installed)
    return unpacked(name, packages) / path


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """The folder that the packages were unpacked into, fetched once in a checkout."""
    folder = _CACHE / name
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(packages, folder)
    return folder


def _fetch(packages: Sequence[str], target: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        _unavailable(f"there is no {target.name} on PATH, and no apt-get to fetch the package {packages[0]} with")
    unfinished = target.with_suffix(".unfinished")
    remove(unfinished)
    with tempfile.TemporaryDirectory() as folder:
        try:
            if not _download(packages, folder):
                _run(["apt-get", "update", "-q"], folder)  # package lists may be absent or old
                _run(["apt-get", "download", *packages], folder)
            for package in Path(folder).glob("*.deb"):
                _run(["dpkg", "-x", str(package), str(unfinished)], folder)
        except subprocess.SubprocessError as error:
            _unavailable(f"the package {packages[0]} could not be fetched: {error}")
    unfinished.rename(target)


def _download(packages: Sequence[str], folder: str) -> bool:
    try:
        _run(["apt-get", "download", *packages], folder)
    except subprocess.CalledProcessError:
        return False
    return True


def _run(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_FETCH_SECONDS)


def _unavailable(why: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
