"""The limit on repetition, by a clock of the test's own."""

from __future__ import annotations

import logging

from relay.telemetry.throttle import RepetitionFilter, Throttle
from tests.support.clock import Clock


def record(text: str, *args: object, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord("relay", level, "", 0, text, args, None)


def test_a_key_is_admitted_once_an_interval_and_learns_what_was_left_out() -> None:
    clock = Clock(100.0)
    throttle = Throttle(1, 1.0, clock)

    assert [throttle.admit("a") for _ in range(4)] == [0, None, None, None]
    assert throttle.admit("b") == 0
    clock.now += 1.0
    assert throttle.admit("a") == 3
    clock.now += 1.0
    assert throttle.admit("a") == 0


def test_memory_is_bounded_whatever_the_keys_are() -> None:
    throttle = Throttle(1, 1.0, Clock(100.0))

    for key in range(5000):
        throttle.admit(key)

    assert len(throttle._windows) <= 1024


def test_the_same_text_passes_once_a_second_with_a_count() -> None:
    clock = Clock(100.0)
    limit = RepetitionFilter(clock)
    assert [limit.filter(record("down: %s", "why")) for _ in range(3)] == [True, False, False]

    clock.now += 1.0
    again = record("down: %s", "why")
    assert limit.filter(again)
    assert again.__dict__["suppressed"] == 2


def test_ten_texts_of_one_kind_pass_in_a_second() -> None:
    limit = RepetitionFilter(Clock(100.0))

    assert sum(limit.filter(record("event %d is dead", number)) for number in range(50)) == 10


def test_different_texts_without_a_template_all_pass() -> None:
    limit = RepetitionFilter(Clock(100.0))

    assert sum(limit.filter(record("%s", f"setting {number} is wrong")) for number in range(50)) == 50


def test_what_is_no_warning_always_passes() -> None:
    limit = RepetitionFilter(Clock(100.0))

    assert all(limit.filter(record("started", level=logging.INFO)) for _ in range(50))
