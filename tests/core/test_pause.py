"""What a pause holds, and the pattern that stands for it in SQL."""

from __future__ import annotations

import pytest

from relay.core.pause import EVERYTHING, PauseScope, PauseTarget


@pytest.mark.parametrize(
    ("target", "pattern", "held", "free"),
    [
        (EVERYTHING, "%", ["", "a", "a.b"], []),
        (PauseTarget(PauseScope.TYPE, "a.b"), "a.b", ["a.b"], ["a", "a.b.c", "aXb"]),
        (PauseTarget(PauseScope.PREFIX, "a."), "a.%", ["a.", "a.b"], ["a", "b.a."]),
        (PauseTarget(PauseScope.TYPE, "50%_\\"), "50\\%\\_\\\\", ["50%_\\"], ["50x_\\", "50%"]),
    ],
)
def test_a_target_holds_its_types_and_no_other(
    target: PauseTarget, pattern: str, held: list[str], free: list[str]
) -> None:
    assert target.pattern == pattern
    assert [target.holds(name) for name in held] == [True] * len(held)
    assert [target.holds(name) for name in free] == [False] * len(free)
