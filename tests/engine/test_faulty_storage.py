"""The whole engine under random histories of a storage that fails, brokers that come and go, and relays that die."""

from __future__ import annotations

import pytest

from tests.engine.histories import Machine, OrderedMachine, run_histories

MACHINES = pytest.mark.parametrize("machine", [Machine, OrderedMachine])


@MACHINES
def test_a_few_histories_of_faults(machine: type[Machine]) -> None:
    run_histories(machine, 8, 30)


@pytest.mark.histories
@pytest.mark.timeout(300)
@MACHINES
def test_no_history_of_faults_loses_repeats_or_miscounts_an_event(machine: type[Machine]) -> None:
    run_histories(machine, 100, 30)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@MACHINES
def test_no_history_of_faults_in_many(machine: type[Machine]) -> None:
    run_histories(machine, 3_000, 60)
