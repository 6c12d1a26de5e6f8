"""How large the next batch is."""

from __future__ import annotations

import pytest

from relay.postgres.operating import next_size


@pytest.mark.parametrize(
    ("size", "seconds", "expected"),
    [
        (1000, 0.01, 1000),  # quick: never more than asked for
        (1000, 2.0, 100),  # slow: smaller at once
        (100, 0.01, 200),  # quick again: grows, but only twofold
        (1000, 1000.0, 50),  # not below a floor
        (1000, 0.0, 1000),
    ],
)
def test_a_slow_batch_is_followed_by_a_smaller_one(size: int, seconds: float, expected: int) -> None:
    assert next_size(size, 1000, seconds) == expected


def test_a_batch_is_never_larger_than_asked_for() -> None:
    assert next_size(10, 10, 5.0) == 10
