"""The histories find each fault of the past when it is put back, and nothing when it is not."""

from __future__ import annotations

import pytest

from tests.system.simulation.draw import draw
from tests.system.simulation.putbacks import MOST_HISTORIES, PUT_BACKS, PutBack, find
from tests.system.simulation.world import play


@pytest.mark.histories
@pytest.mark.parametrize("put_back", PUT_BACKS, ids=lambda one: one.name)
def test_a_fault_of_the_past_is_found(put_back: PutBack, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        put_back.apply(patch)
        discovery = find(put_back)
    assert discovery is not None, f"not within {MOST_HISTORIES} histories"
    seed, result = discovery
    print(f"seed {seed}: {result.violation}")
    assert play(draw(seed)).violation is None
