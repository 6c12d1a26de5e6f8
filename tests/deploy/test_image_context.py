"""The wheel builds from exactly the files that the Dockerfile copies and ``.dockerignore`` leaves in the context."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import patience

SKIPPED = {".git", ".venv", ".cache"}  # large, and no pattern of the context begins with these


def pattern(text: str) -> re.Pattern[str]:
    """A pattern of .dockerignore: ``*`` stays within a name, ``**/`` is any folders; a folder stands for its files."""
    parts = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", text.strip("/"))
    return re.compile("".join(parts.get(piece, re.escape(piece)) for piece in pieces) + "(?:/.*)?")


def in_context(path: str, ignore: str) -> bool:
    """Whether a file of the checkout is sent to the builder: the last pattern that matches decides."""
    sent = True
    for line in filter(None, map(str.strip, ignore.splitlines())):
        if not line.startswith("#") and pattern(line.removeprefix("!")).fullmatch(path):
            sent = line.startswith("!")
    return sent


def sources(dockerfile: str) -> Iterator[str]:
    """What the first stage copies from the context."""
    stage = dockerfile.split("\nFROM ")[1]
    for line in re.findall(r"^COPY (?!--from)(.*)$", stage, re.MULTILINE):
        yield from line.split()[:-1]


def copy_context(folder: Path) -> None:
    """Copy what the builder's working directory would hold."""
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    files = [
        file.relative_to(ROOT)
        for top in ROOT.iterdir()
        if top.name not in SKIPPED
        for file in (top.rglob("*") if top.is_dir() else [top])
        if file.is_file()
    ]
    sent = [file for file in files if in_context(str(file), ignore)]
    for source in sources((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        copied = [file for file in sent if pattern(source).fullmatch(str(file))]
        assert copied, f"COPY {source}: .dockerignore keeps all such files out of the context"
        for file in copied:
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, target)


def test_the_wheel_builds_from_what_the_image_copies(tmp_path: Path) -> None:
    context = tmp_path / "context"
    copy_context(context)

    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    env = os.environ | {"OPENOUTBOX_VERSION": "0.2.0.dev7+g0123abcd"}
    done = subprocess.run(
        command, cwd=context, env=env, capture_output=True, text=True, timeout=patience(), check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    assert '\n__version__ = "0.2.0.dev7+g0123abcd"' in archive.read("relay/version.py").decode()
    names = set(archive.namelist())
    assert {"relay/__main__.py", "relay_cli/main.py", "relay/sql/outbox/claim.sql", "pyspark_openoutbox.py"} <= names
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("relay/__main__.py", True),
        ("relay/server/__pycache__/http.pyc", False),
        ("pyproject.toml", True),
        (".env", False),
        ("tests/conftest.py", False),
        ("benchmarks/drain.py", False),
        ("relayx.py", False),
    ],
)
def test_the_context_holds_what_the_image_needs_and_no_more(path: str, sent: bool) -> None:
    assert in_context(path, (ROOT / ".dockerignore").read_text(encoding="utf-8")) is sent
