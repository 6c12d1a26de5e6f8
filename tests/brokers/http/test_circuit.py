"""A circuit opens after failures in a row, and closes by one event that gets through."""

from __future__ import annotations

from relay.brokers.http.circuit import FAILURES, Circuit
from tests.support.clock import Clock


def opened(clock: Clock) -> Circuit:
    circuit = Circuit(5.0, clock)
    for _ in range(FAILURES):
        assert not circuit.open
        circuit.failed("refused")
    return circuit


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    circuit = Circuit(5.0, Clock())
    for _ in range(FAILURES - 1):
        circuit.failed("refused")
    circuit.worked()
    for _ in range(FAILURES - 1):
        circuit.failed("refused")
    assert not circuit.open
    circuit.failed("refused")
    assert (circuit.open, circuit.half_open, circuit.reason) == (True, False, "refused")


def test_after_the_pause_it_is_half_open_until_an_answer() -> None:
    clock = Clock()
    circuit = opened(clock)
    clock.now = 4.9
    assert circuit.open
    clock.now = 5.0
    assert (circuit.open, circuit.half_open) == (False, True)
    circuit.worked()
    assert (circuit.open, circuit.half_open) == (False, False)


def test_a_failure_while_it_is_half_open_opens_it_for_another_pause() -> None:
    clock = Clock()
    circuit = opened(clock)
    clock.now = 5.0
    circuit.failed("refused again")
    assert circuit.reason == "refused again"
    clock.now = 9.9
    assert circuit.open
    clock.now = 10.0
    assert circuit.half_open
