"""What code, comments and documents refer to exists: every document of this repository, and every section of it."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.support.paths import ROOT

_REFERENCE = re.compile(r"(?<![\w/.-])((?:docs|examples)/[\w/-]+\.md)(?:#([\w-]+))?")
_IN_DOCUMENT = re.compile(r"\]\((?!\w+:)([\w/.-]*)(?:#([\w-]+))?\)")
_TREE = ("relay", "cli", "client", "sql", "tests", "benchmarks", "deploy", "examples", "docs")
_KINDS = {".py", ".sql", ".md", ".yaml", ".yml", ".toml", ".sh"}
_OF_NO_DOCUMENT = re.compile(r"\b(?i:section|sections) \d|\b(?:CONTRACT|DESIGN|DELIVERYLOG|EVENTSTORE|WORDS)\.md\b")
_HERE = "tests/docs/test_references.py"


@cache
def files() -> dict[str, str]:
    """The text of every file that may refer to a document."""
    paths = [*ROOT.glob("*"), *(path for folder in _TREE for path in (ROOT / folder).rglob("*"))]
    texts = [path for path in paths if path.suffix in _KINDS or path.name == "Makefile"]
    named = {path.relative_to(ROOT).as_posix(): path for path in texts if path.is_file()}
    return {name: path.read_text(encoding="utf-8") for name, path in named.items() if name != _HERE}


@cache
def anchors(document: str) -> frozenset[str]:
    """The anchors of a document's sections, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def wrong(source: str, document: str, anchor: str | None) -> str | None:
    """What is wrong with one reference; None when nothing is."""
    if not (ROOT / document).exists():
        return f"{source}: there is no {document}"
    if anchor and document.endswith(".md") and anchor not in anchors(document):
        return f"{source}: {document} has no section #{anchor}"
    return None


def references(name: str, text: str) -> list[tuple[str, str | None]]:
    """Documents and sections that a file refers to, the document as a path from the root."""
    targets: list[tuple[str, str | None]] = [(path, anchor or None) for path, anchor in _REFERENCE.findall(text)]
    if name.endswith(".md"):
        folder = (ROOT / name).parent
        for path, anchor in _IN_DOCUMENT.findall(text):
            target = (folder / path).resolve() if path else ROOT / name
            targets.append((target.relative_to(ROOT).as_posix(), anchor or None))
    return targets


def test_every_document_and_section_that_is_named_exists() -> None:
    named = [(name, *one) for name, text in files().items() for one in references(name, text)]
    assert len(named) > 100
    assert [problem for one in named if (problem := wrong(*one)) is not None] == []


def test_every_picture_of_the_readme_exists_and_is_small() -> None:
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', files()["README.md"])
    assert pictures == ["docs/pictures/console-dark.png", "docs/pictures/console-light.png"]
    assert [name for name in pictures if not 10_000 < (ROOT / name).stat().st_size <= 150_000] == []


def test_nothing_refers_to_a_document_that_is_not_in_the_tree() -> None:
    assert [name for name, text in files().items() if _OF_NO_DOCUMENT.search(text)] == []


@pytest.mark.parametrize("reference", ["docs/absent.md", "docs/operate/monitoring.md#absent"])
def test_a_wrong_reference_is_noticed(reference: str) -> None:
    [(document, anchor)] = references("relay/x.py", f"(see {reference})")
    assert wrong("relay/x.py", document, anchor) is not None
