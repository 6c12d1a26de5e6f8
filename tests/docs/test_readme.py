"""The README is short, with the commands of the page of the first event and the figures of the pages it links."""

from __future__ import annotations

import re

import pytest

from tests.support.documents import blocks
from tests.support.paths import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FIGURES = re.findall(r"^\| (.+) \| (.+) \| (.+) \| \[.+\]\((docs/[\w/.-]+)#([\w-]+)\) \|$", TEXT, re.MULTILINE)


def section(document: str, anchor: str) -> str:
    """The text of one section."""
    parts = re.split(r"^## ", (ROOT / document).read_text(encoding="utf-8"), flags=re.MULTILINE)
    [found] = [
        part for part in parts if re.sub(r"[^\w -]", "", part.splitlines()[0].lower()).replace(" ", "-") == anchor
    ]
    return found


def test_it_has_at_most_120_lines() -> None:
    assert len(TEXT.splitlines()) <= 120


def test_its_commands_are_those_of_the_first_event() -> None:
    demo, *own = [block.text for block in blocks("README.md") if block.language in {"sh", "sql"}]
    assert demo == "make demo\n"
    assert own == [block.text for block in blocks("docs/guide/first-event.md")][:2]


def test_it_has_six_figures() -> None:
    assert len(FIGURES) == 6


@pytest.mark.parametrize(("what", "figure", "yardstick", "document", "anchor"), FIGURES)
def test_a_figure_was_measured_as_it_says(what: str, figure: str, yardstick: str, document: str, anchor: str) -> None:
    """Every number of the row stands in the section that it links; that of the faults is counted there."""
    measured = section(document, anchor)
    faults = sum(line.startswith("| ") for line in measured.partition("| measured |")[0].splitlines()) - 2
    known = {*re.findall(r"\d[\d,.]*\d|\d", measured), str(faults), "1000", "50"}
    assert set(re.findall(r"\d[\d,.]*\d|\d", f"{what} {figure} {yardstick}")) <= known
