"""What users read has plain words: pages, help, errors, log lines, metrics' help, the console, values and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

AVOIDED = {
    "an actor without a name": r"everybody|nobody|anybody|somebody|someone|anyone|whoever|whomever|whom"
    r"|he|him|his|himself",
    "an old word": r"mend(?:s|ed|ing)?|heed(?:s|ed)?|anew|bears?|hence|thereof|thus|upon|shall|lest|whilst|nevertheless"
    r"|affairs?|dislikes?",
    "a roundabout phrase": r"for ever|be had|is told|lets us in|be meant|takes it for|misses nothing|by itself",
}
_FOLDERS = ("relay", "cli", "client", "sql", "deploy", "docs", "examples", "benchmarks")
_KINDS = {".py", ".sql", ".md", ".html", ".yaml", ".yml", ".toml", ".service", ".timer", ".tpl", ".txt", ".sh"}
_ACCOUNT = re.compile(r"``nobody``|\"nobody\"")
"""The account of the operating system."""


def texts() -> Iterator[tuple[str, str]]:
    """Every file that users read, or that holds what they read: its name and its text."""
    files = [*ROOT.glob("*.md"), *(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*"))]
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in _KINDS and path.is_file() and not {"vendor", "licenses"} & set(path.parts):
            yield name, _ACCOUNT.sub("", path.read_text(encoding="utf-8"))


def findings(text: str, words: str) -> list[str]:
    """The lines with one of the words; a part of a longer name does not count."""
    pattern = re.compile(rf"(?<![\w$.-])(?:{words.replace(' ', '[ ]')})(?![\w-])", re.IGNORECASE)
    return [line.strip() for line in text.splitlines() if pattern.search(line)]


@pytest.mark.parametrize("reason", AVOIDED)
def test_no_text_has(reason: str) -> None:
    read = dict(texts())
    assert len(read) > 400
    assert {name: lines for name, text in read.items() if (lines := findings(text, AVOIDED[reason]))} == {}


def test_a_word_is_noticed_whatever_stands_beside_it() -> None:
    old = AVOIDED["an old word"]
    assert findings("Thus it ends.\nthusly, un-mended, x.bears\n(hence)", old) == ["Thus it ends.", "(hence)"]
