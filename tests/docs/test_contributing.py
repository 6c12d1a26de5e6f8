"""What a newcomer reads first is short, and begins with where things are."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_it_has_at_most_800_words_with_the_layout_first() -> None:
    assert len(TEXT.split()) <= 800
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE)[0] == "Layout"


@pytest.mark.parametrize("page", ["CODE_OF_CONDUCT.md", "GOVERNANCE.md", "SECURITY.md"])
def test_it_names_how_people_work_together(page: str) -> None:
    assert f"]({page})" in TEXT
    assert (ROOT / page).is_file()
