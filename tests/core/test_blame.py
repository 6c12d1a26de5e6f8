"""Whose fault a statement's failure is, by what becomes of other rows."""

from __future__ import annotations

import pytest

from relay.core.blame import MOST_ALIKE, Party, Trial
from relay.core.errors import RowRefused, SchemaError, StorageBusy, StorageError, StorageUnavailable


@pytest.mark.parametrize("kind", [StorageUnavailable, StorageBusy, SchemaError])
def test_a_row_alone_is_nobodys_fault_yet_and_two_alike_are_the_databases(kind: type[StorageError]) -> None:
    """The second row is the control of the first one. Their first guess, the database, is right when both fail."""
    trial: Trial[str] = Trial()
    for _ in range(3):
        assert trial.failed("first", kind("no")) is Party.UNKNOWN
        assert trial.without_control() is Party.UNKNOWN
    assert trial.failed("second", kind("no")) is Party.UNKNOWN
    assert trial.without_control() is Party.DATABASE


def test_rows_whose_first_guess_is_the_row_are_the_databases_fault_at_the_twentieth() -> None:
    trial: Trial[int] = Trial()
    faults = [trial.failed(row, RowRefused("no")) for row in range(MOST_ALIKE)]
    assert faults == [Party.UNKNOWN] * (MOST_ALIKE - 1) + [Party.DATABASE]
    assert trial.without_control() is Party.UNKNOWN


def test_one_control_that_goes_through_blames_the_rows_that_failed() -> None:
    trial: Trial[str] = Trial()
    trial.failed("first", StorageUnavailable("no"))
    trial.failed("second", RowRefused("no"))
    assert list(trial.went_through()) == ["first", "second"]
    assert (trial.failed_rows, trial.controls, trial.last_error) == ({}, 1, None)
