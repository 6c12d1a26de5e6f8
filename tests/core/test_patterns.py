"""Patterns: one that covers another matches whatever that one matches."""

from __future__ import annotations

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
