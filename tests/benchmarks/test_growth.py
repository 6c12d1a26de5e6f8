"""How a drain of ``benchmarks.growth`` ends, its tables, and its pictures; test_benchmarks_run.py runs it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from types import SimpleNamespace

import pytest

from benchmarks import growth, growth_drain
from benchmarks.growth_plot import PICTURES, draw
from benchmarks.growth_table import PLACES, Growth, estimate, knees, medians, places, rounds

ONE = Growth("relays", 1, 1000, events_per_second=100, relay_microseconds=2, postgres_microseconds=20, wal_bytes=2000)


class Draining:
    """Relays that deliver at a steady pace, in a time that goes on only while the benchmark waits or reads."""

    def __init__(self, pace: float, begin: float) -> None:
        self.now = 0.0
        self.readings = 0
        self._pace = pace
        self._begin = begin

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def delivered(self, _relays: object) -> float:
        self.readings += 1
        self.now += 0.002
        return max(self.now - self._begin, 0.0) * self._pace


def watched(pace: float, monkeypatch: pytest.MonkeyPatch, begin: float = 0.0) -> Draining:
    """Watch 200,000 rows until half of them are delivered; the relays begin after so many seconds."""
    draining = Draining(pace, begin)
    monkeypatch.setattr(growth_drain, "time", SimpleNamespace(monotonic=draining.monotonic, sleep=draining.wait))
    monkeypatch.setattr(growth_drain, "_delivered", draining.delivered)
    growth_drain._watch([], 200_000, 0.5, 0.0)
    return draining


@pytest.mark.parametrize("pace", [1_000_000, 160_000, 80_000, 50_000])
def test_a_drain_ends_half_way_whatever_the_pace(pace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draining = watched(pace, monkeypatch)
    assert 100_000 <= draining.now * pace < 125_000
    assert draining.readings <= 20


def test_a_drain_that_begins_late_ends_half_way_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    draining = watched(160_000, monkeypatch, begin=2.0)
    assert 100_000 <= (draining.now - 2.0) * 160_000 < 150_000


def test_a_slow_drain_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    draining = watched(100, monkeypatch)
    assert 6.0 <= draining.now < 6.1


def test_relays_that_never_deliver_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimeoutError):
        watched(0, monkeypatch)


def test_rows_that_ran_out_are_drained_again_for_a_smaller_share(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = []

    def ran_out(_servers: object, plan: Growth, share: float) -> Growth:
        shares.append(share)
        if share > 0.25:
            raise growth_drain._RanOut
        return plan

    monkeypatch.setattr(growth_drain, "_drain", ran_out)
    assert growth_drain.drain([], ONE) is ONE
    assert shares == [0.5, 0.25]


def test_ten_million_rows_are_measured_in_the_first_round_alone() -> None:
    options = argparse.Namespace(
        rows=1000,
        relays=[1],
        keys=[10],
        places=[*PLACES],
        batches=[100],
        sizes=[10_000, 10_000_000],
        series=["waiting", "delivered", "keys", "places"],
    )
    first, second = (list(growth._plans(options, number)) for number in range(2))
    assert [plan for plan in first if plan not in second] == [
        Growth("waiting", 1, 10_000_000),
        Growth("delivered", 1, 1000, delivered=10_000_000),
    ]
    assert [plan.ordering for plan in second if plan.series == "keys"] == ["none", "key"]
    assert [plan.place for plan in second if plan.series == "places"] == [*PLACES]


def test_medians_are_of_the_rounds_of_one_plan() -> None:
    cells = [replace(ONE, events_per_second=pace, others=pace / 1000) for pace in (90, 100, 130)]
    [median, other] = medians([*cells, replace(ONE, relays=2)])
    assert (median.events_per_second, median.others, other.relays) == (100, 0.13, 2)
    assert rounds(cells) == "Medians of 3 rounds."
    assert rounds([*cells, replace(ONE, waiting=10**7)]) == "Medians of 3 rounds, of fewer with 10,000,000 rows."


def test_sixteen_cores_are_filled_by_inserts_and_deliveries() -> None:
    insert = Growth("insert", 0, 250, postgres_microseconds=80, wal_bytes=1000)
    lines = estimate([ONE, insert]).splitlines()[2:]
    assert lines == [
        "| the application's inserts, one a transaction | 8.0 | 100 | 0.0 |  |  |",
        "| claim and settle, batch 100 | 2.0 | 200 | 0.2 | 160,000 | 480 |",
    ]


def test_knees_and_places_compare_with_one_relay_and_one_table() -> None:
    more = [replace(ONE, relays=relays, events_per_second=pace) for relays, pace in ((2, 190), (4, 195))]
    assert knees([ONE, *more]).splitlines()[2:] == ["| batch 100 | 2 | 1.90 | 1.95 (4) | 1.00 |"]
    pairs = [
        replace(
            ONE, series="places", relays=2, place=place, tables=1 if place == "table" else 2, events_per_second=pace
        )
        for place, pace in zip(PLACES, (200, 210, 220, 230), strict=True)
    ]
    assert places(pairs).splitlines()[2:] == [
        "| one table | 200 | 1.00 | 20.0 |",
        "| two tables of one database | 210 | 1.05 | 20.0 |",
        "| two databases of one server | 220 | 1.10 | 20.0 |",
        "| two servers | 230 | 1.15 | 20.0 |",
    ]
    assert places([ONE]) == ""


@pytest.mark.process  # matplotlib asks fc-list for the fonts where a home has no cache of them
@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_has_a_line_for_each_series_and_names_its_axes(picture: str) -> None:
    plt = pytest.importorskip("matplotlib.pyplot", reason="needs the group bench")
    cells = [
        *(replace(ONE, relays=relays) for relays in (1, 8)),
        *(replace(ONE, series="waiting", waiting=rows) for rows in (100, 1000)),
        *(replace(ONE, series="keys", ordering=order, keys=keys) for order in ("none", "key") for keys in (10, 200)),
    ]
    figure, axes = plt.subplots(1, 2)
    draw(cells, picture, axes)
    drawn = [line for line in axes[0].get_lines() if list(line.get_ydata())]
    assert [list(line.get_xdata()) for line in drawn] == {
        "growth-relays": [[1, 8]],
        "growth-rows": [[100, 1000]],
        "growth-keys": [[10, 200], [10, 200]],
    }[picture]
    assert [axis.get_xlabel() for axis in axes] == [PICTURES[picture]] * 2
    assert [axis.get_ylabel() for axis in axes] == ["events/s", "PostgreSQL CPU, us an event"]
    plt.close(figure)
