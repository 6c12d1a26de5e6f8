"""docs/design/dependencies.md lists every requirement of a user, word for word, and no other."""

from __future__ import annotations

import re
import tomllib

from tests.support.paths import ROOT


def required() -> set[str]:
    """Every requirement of the relay and its extras; pyproject.toml says what those of the development are for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {each for group in (project["dependencies"], *project["optional-dependencies"].values()) for each in group}


def test_every_requirement_is_listed_with_its_bounds() -> None:
    text = (ROOT / "docs/design/dependencies.md").read_text(encoding="utf-8")

    assert set(re.findall(r"^\| `([^`]+)` \| .*\w", text, re.MULTILINE)) == required()


def test_nothing_is_installed_from_an_index() -> None:
    """The package is on none; a package registered there under its name would be installed instead."""
    named = re.compile(r"install\b[^\n]*[\s'\"]openoutbox-relay\b(?!\W*build)")
    texts = [
        *ROOT.glob("*.md"),
        *(path for folder in ("docs", "examples", "deploy", "benchmarks") for path in (ROOT / folder).rglob("*.*")),
        *(path for folder in ("relay", "cli", "client") for path in (ROOT / folder).rglob("*.py")),
    ]
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in texts
        if path.suffix in {".md", ".py", ".yaml", ".yml", ".sh", ".service", ".sql", ".txt"}
        for line in path.read_text(encoding="utf-8").splitlines()
        if named.search(line)
    ]
    assert len(texts) > 100
    assert lines == []
