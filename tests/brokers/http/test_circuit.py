"""A circuit opens after failures in a row, and closes by one event that gets through."""

from __future__ import annotations

from relay.brokers.http.circuit import FAILURES, Circuit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> Circuit:
    circuit = Circuit(5.0, clock)
    for _ in range(FAILURES):
        assert circuit.admit()
        circuit.failed("refused")
    return circuit


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    circuit = Circuit(5.0, Clock())
    for _ in range(FAILURES - 1):
        circuit.failed("refused")
    circuit.worked()
    for _ in range(FAILURES - 1):
        circuit.failed("refused")
    assert circuit.admit()
    circuit.failed("refused")
    assert not circuit.admit()
    assert circuit.reason == "refused"


def test_after_the_pause_one_event_is_the_probe() -> None:
    clock = Clock()
    circuit = opened(clock)
    clock.now = 4.9
    assert not circuit.admit()
    clock.now = 5.0
    assert [circuit.admit(), circuit.admit()] == [True, False]
    circuit.worked()
    assert [circuit.admit(), circuit.admit()] == [True, True]


def test_a_probe_that_fails_opens_it_for_another_pause() -> None:
    clock = Clock()
    circuit = opened(clock)
    clock.now = 5.0
    assert circuit.admit()
    circuit.failed("refused again")
    clock.now = 9.9
    assert not circuit.admit()
    clock.now = 10.0
    assert circuit.admit()


def test_a_probe_that_is_abandoned_leaves_its_turn_to_the_next() -> None:
    clock = Clock()
    circuit = opened(clock)
    clock.now = 5.0
    assert circuit.admit()
    circuit.give_back()
    assert circuit.admit()
