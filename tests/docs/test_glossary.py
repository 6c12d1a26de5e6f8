"""docs/reference/glossary.md: sorted, each term once, and with the meaning that the code's own glossary has."""

from __future__ import annotations

import re

import relay.core.event
from tests.support.paths import ROOT

TERMS = re.findall(
    r"^\| ([A-Za-z][\w -]+) \| (.+) \|$",
    (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)[1:]
_PARTS = re.split(r"\*([\w ]+)\*: ", " ".join((relay.core.event.__doc__ or "").split()))
IN_CODE = dict(zip(_PARTS[1::2], _PARTS[2::2], strict=True))


def bare(text: str) -> str:
    """Without marks of code, case, and the end of the sentence."""
    return text.replace("`", "").rstrip(" -;.").lower()


def test_the_terms_are_sorted_and_each_has_one_meaning() -> None:
    names = [name for name, _ in TERMS]
    assert len(names) >= 30
    assert names == sorted(set(names), key=lambda name: name.lower().replace("-", " "))


def test_a_term_of_the_code_has_its_meaning_there() -> None:
    written = {name: bare(meaning) for name, meaning in TERMS}
    assert len(IN_CODE) >= 13
    assert {name: bare(meaning) for name, meaning in IN_CODE.items()} == {name: written.get(name) for name in IN_CODE}
