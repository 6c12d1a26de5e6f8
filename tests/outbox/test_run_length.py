"""How many rows of each key a claim in order takes: long runs where keys are scarce, single rows where they are not."""

from __future__ import annotations

from relay.outbox.ordered import RunLength


def test_it_begins_with_one_row_of_each_key() -> None:
    assert RunLength(99).firsts(100) == 100


def test_scarce_keys_make_runs_twice_as_long_up_to_the_longest() -> None:
    run = RunLength(99)
    firsts = []
    for _ in range(8):
        run.adapt(100, run.firsts(100) - 1, 50, more_wait=True)
        firsts.append(run.firsts(100))
    assert firsts == [50, 25, 13, 7, 4, 2, 1, 1]


def test_claims_in_a_row_that_bring_nothing_count_once() -> None:
    run = RunLength(99)
    for _ in range(5):
        run.adapt(100, 0, 0, more_wait=True)
    assert run.firsts(100) == 50


def test_runs_that_are_shorter_than_wanted_make_room_for_more_keys_at_once() -> None:
    run = RunLength(99)
    for _ in range(3):
        run.adapt(100, 1, 50, more_wait=True)
    assert run.firsts(100) == 13
    assert run.adapt(100, 13, 20, more_wait=True)
    assert run.firsts(100) == 25
    assert not run.adapt(100, 10, 10, more_wait=False)
    assert run.firsts(100) == 25
