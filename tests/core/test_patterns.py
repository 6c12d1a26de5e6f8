"""Patterns: one that covers another matches whatever that one matches."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from relay.core.patterns import compile_pattern, covers

patterns = st.text(alphabet="ab.*", min_size=1, max_size=6)
names = st.text(alphabet="ab.", max_size=8)


@given(patterns, patterns, names)
def test_what_a_covered_pattern_matches_its_cover_matches(earlier: str, later: str, name: str) -> None:
    if covers(earlier, later) and compile_pattern(later).fullmatch(name):
        assert compile_pattern(earlier).fullmatch(name)


@given(patterns, patterns)
def test_a_pattern_that_is_not_covered_matches_something_else(earlier: str, later: str) -> None:
    """An asterisk may stand for a character that occurs in no pattern."""
    if not covers(earlier, later):
        assert not compile_pattern(earlier).fullmatch(later.replace("*", "#"))


@given(patterns, names)
def test_an_asterisk_stands_for_any_characters(pattern: str, name: str) -> None:
    plain = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    assert (compile_pattern(pattern).fullmatch(name) is None) == (plain.fullmatch(name) is None)


def test_a_long_type_is_matched_soon_by_a_pattern_with_many_asterisks() -> None:
    expression = compile_pattern("*ab*ab*ab*ab*ab*c")
    began = time.thread_time()
    assert expression.fullmatch("ab" * 2048) is None
    assert time.thread_time() - began < 1.0
