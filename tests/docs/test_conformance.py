"""docs/reference/conformance.md names tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

DOCUMENT = ROOT / "docs/reference/conformance.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DOCUMENT.read_text(encoding="utf-8"))))


def test_every_rule_names_a_test() -> None:
    rules = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(NAMED) > 40
    assert [rule for rule in rules if "::" not in rule and rule != "| rule | shown by |"] == []


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_named_test_exists(path: str, name: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE)
