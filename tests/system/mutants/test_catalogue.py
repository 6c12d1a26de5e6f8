"""The mutants fit the present code, so that ``python -m tests.system.mutants`` can try each of them."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from tests.system.mutants.catalogue import MUTANTS
from tests.system.mutants.mutant import Mutant, StaleMutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_a_mutant_changes_one_line_and_names_tests_that_exist(mutant: Mutant) -> None:
    source = (ROOT / mutant.path).read_text(encoding="utf-8")
    mutated = mutant.apply(source)
    if mutant.path.endswith(".py"):
        compile(mutated, mutant.path, "exec")
    for test in mutant.tests:
        file, _, function = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        if "from relay.conformance.suite import *" in text:
            text += "".join(one.read_text(encoding="utf-8") for one in (ROOT / "relay/conformance").glob("*.py"))
        assert f"def {function.partition('[')[0]}" in text, test


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40


@pytest.mark.parametrize("source", ["", "a\na\n"])
def test_a_line_that_is_gone_or_no_longer_unique_is_an_error(source: str) -> None:
    with pytest.raises(StaleMutant, match="times instead of once"):
        Mutant("m", "p", "a", "b", ()).apply(source)


@pytest.mark.parametrize("new", ["a\nb", "x\ny", "a\nb\nc"])
def test_a_mutant_of_other_than_one_line_is_an_error(new: str) -> None:
    with pytest.raises(StaleMutant, match="more than one line"):
        Mutant("m", "p", "a\nb", new, ()).apply("0\na\nb\n9\n")
