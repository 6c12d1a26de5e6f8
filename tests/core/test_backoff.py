"""The delays between two attempts, and when there is none left (docs/reference/conformance.md#errors)."""

from __future__ import annotations

import pytest

from relay.core.backoff import RetryPolicy
from relay.core.outcome import Away, Transient
from relay.core.verdict import RELEASE, Bury, Retry, decide

POLICY = RetryPolicy(max_attempts=5, base_delay=2.0, max_delay=10.0, jitter=0.5)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 10.0), (1000, 10.0)])
def test_delays_double_up_to_the_longest_one(attempts: int, seconds: float) -> None:
    assert POLICY.delay(attempts, 0.0) == seconds
    assert POLICY.delay(attempts, 1.0) == 1.5 * seconds


def test_the_last_attempt_is_the_end() -> None:
    assert [POLICY.exhausted(attempts) for attempts in (4, 5, 6)] == [False, True, True]


@pytest.mark.parametrize("attempts", range(4))
def test_each_transient_failure_is_an_attempt_and_waits_longer(attempts: int) -> None:
    verdict = decide(Transient("T", "later"), attempts, POLICY, 0.0)
    assert verdict == Retry(POLICY.delay(attempts + 1, 0.0), "T: later")


def test_the_failure_that_uses_up_the_attempts_buries() -> None:
    assert decide(Transient("T", "later"), 4, POLICY, 0.0) == Bury("T: later")


@pytest.mark.parametrize(("asked", "seconds"), [(0.0, 4.0), (3.0, 4.0), (6.0, 6.0), (1e9, 10.0)])
def test_a_wait_that_the_destination_asks_for_counts_up_to_the_longest_delay(asked: float, seconds: float) -> None:
    assert decide(Transient("T", "later", asked), 1, POLICY, 0.0) == Retry(seconds, "T: later")
    assert decide(Transient("T", "later", asked), 1, POLICY, 1.0) == Retry(1.5 * seconds, "T: later")


def test_an_event_whose_destination_is_away_uses_no_attempt() -> None:
    assert decide(Away("refused"), 4, POLICY, 0.0) == RELEASE
