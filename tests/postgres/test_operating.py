"""Ctrl-C in the middle of a batch: what is committed is counted first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from relay.postgres.operating import uninterrupted


@pytest.fixture(autouse=True)
def python_handles_ctrl_c() -> Iterator[None]:
    """Set Python's own handler: a SparkContext that an earlier test made in this process leaves another one behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_ctrl_c_waits_for_the_end_of_the_block() -> None:
    steps = []

    def work() -> None:
        with uninterrupted():
            steps.append("committed")
            signal.raise_signal(signal.SIGINT)
            steps.append("counted")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["committed", "counted"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_ends_the_block_at_once() -> None:
    steps = []

    def work() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            steps.append("waits")
            signal.raise_signal(signal.SIGINT)
            steps.append("goes on")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["waits"]


def test_an_error_of_the_block_is_raised_and_the_handler_is_back() -> None:
    with pytest.raises(ValueError, match="the batch"), uninterrupted():
        raise ValueError("the batch")

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_thread_sets_no_handler() -> None:
    seen = []

    def work() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
