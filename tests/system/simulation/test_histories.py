"""Random histories of whole fleets keep every promise. ``make simulate SEED=n`` replays one that does not."""

from __future__ import annotations

import pytest

from tests.system.simulation.draw import draw
from tests.system.simulation.shrink import shrink
from tests.system.simulation.world import play

_FEW = 150
_MANY = 300
_CHUNKS = range(_FEW, _FEW + 4 * _MANY, _MANY)
"""First seeds. `make test` plays the first one's, `make soak` the others."""


def _play_all(first: int, count: int) -> None:
    for seed in range(first, first + count):
        result = play(draw(seed))
        if result.violation is not None:
            pytest.fail(f"replay it with make simulate SEED={seed}\n{shrink(result).text()}", pytrace=False)


def test_a_few_histories_keep_every_promise() -> None:
    _play_all(0, _FEW)


@pytest.mark.histories
@pytest.mark.parametrize("first", [_CHUNKS[0], *(pytest.param(one, marks=pytest.mark.soak) for one in _CHUNKS[1:])])
def test_many_histories_keep_every_promise(first: int) -> None:
    _play_all(first, _MANY)


def test_a_seed_is_one_history() -> None:
    first, second = play(draw(7)), play(draw(7))
    assert first.world.ledger.lines == second.world.ledger.lines
