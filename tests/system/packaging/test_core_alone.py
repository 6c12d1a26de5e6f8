"""The tests of the core need the test tools and the client, no library of a broker or database."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.system.packaging.test_client import UV, run

pytestmark = pytest.mark.packages

TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "hypothesis")


def test_they_run_where_nothing_else_is_installed(tmp_path: Path) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    tools = [one for one in groups["test"] if isinstance(one, str) and one.split(">")[0] in TOOLS]
    assert len(tools) == len(TOOLS)
    run(UV, "venv", "--quiet", "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    run(UV, "pip", "install", "--quiet", "--python", python, *tools, ROOT / "client", cwd=tmp_path)
    alone = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ROOT, "-c", ROOT / "pyproject.toml")
    collected = run(*alone, "--collect-only", ROOT / "tests/core", cwd=ROOT)
    assert " tests collected" in collected
    assert " passed" in run(*alone, ROOT / "tests/core/test_backoff.py", cwd=ROOT)
