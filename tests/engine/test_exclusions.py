"""Rows that are left out of claims and reaps: whose fault a failure is, and for how long a row is left out."""

from __future__ import annotations

from relay.core.blame import MOST_ALIKE
from relay.core.errors import RowRefused
from relay.engine.refusal import Exclusions, RefusedRows
from tests.support.doubles.telemetry import MemoryTelemetry


def refused(number: int) -> RowRefused:
    error = RowRefused("claiming: not this one")
    error.event_id = str(number)
    return error


class Scene:
    def __init__(self) -> None:
        self.now = 0.0
        self.passed: list[str] = []
        self.rows = RefusedRows(MemoryTelemetry(), lambda: self.now)
        self.excluded = Exclusions("claim", self.rows, lambda: self.now, self.passed.append)

    def ids_after(self, seconds: float) -> list[str]:
        self.now += seconds
        return list(self.excluded.ids())


def test_as_many_as_make_it_the_database_are_rows_while_others_go_through() -> None:
    scene = Scene()
    for number in range(MOST_ALIKE + 5):
        assert scene.excluded.add(refused(number))
        scene.excluded.went_through()
    assert scene.passed == [str(number) for number in range(MOST_ALIKE, MOST_ALIKE + 5)]
    assert "refuses to claim" in scene.rows.degraded()["refused_rows"]


def test_as_many_in_a_row_are_the_database_and_are_left_out_until_one_goes_through() -> None:
    scene = Scene()
    assert [scene.excluded.add(refused(number)) for number in range(MOST_ALIKE)] == [True] * (MOST_ALIKE - 1) + [False]
    assert len(scene.ids_after(29.0)) == MOST_ALIKE
    assert not scene.excluded.add(refused(MOST_ALIKE))
    scene.excluded.went_through()
    assert scene.ids_after(5.1) == []


def test_a_row_that_is_to_blame_is_left_out_for_longer_each_time() -> None:
    scene = Scene()
    for seconds in (5.0, 5.0, 10.0, 20.0):  # not yet to blame, then once, twice, three times
        scene.excluded.add(refused(1))
        scene.excluded.went_through()
        assert scene.ids_after(seconds - 0.1) == ["1"]
        assert scene.ids_after(0.2) == []
