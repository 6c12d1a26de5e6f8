"""Waiting for something that another process does: poll until it is so or the deadline has passed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL = 0.02  # seconds; short, since what is waited for here is mostly there within a tenth of a second


def wait_until(predicate: Callable[[], T], deadline: float = 10.0, what: str = "") -> T:
    """Call ``predicate`` until it returns something true, and return that.

    ``deadline`` is in seconds. Raises TimeoutError, which names ``what`` was waited for and the last answer. What the
    predicate raises goes through at once.
    """
    end = time.monotonic() + deadline
    while not (answer := predicate()):
        if time.monotonic() >= end:
            raise TimeoutError(f"waited {deadline:g} s for {what or predicate}; the last answer was {answer!r}")
        time.sleep(_POLL)
    return answer
