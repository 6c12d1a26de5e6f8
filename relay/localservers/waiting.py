"""Waiting for something that another process does: poll until it is so or the deadline has passed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST, _LONGEST = 0.02, 0.1


def pause_after(waited: float) -> float:
    """Seconds until the next look, after so many seconds of waiting: a tenth of them.

    Short at first, since most is there within a tenth of a second. Looks cost more than what they look at: one at a
    database opens a connection, 8 ms of a processor.
    """
    return min(max(waited / 10, _SHORTEST), _LONGEST)


def wait_until(predicate: Callable[[], T], deadline: float = 10.0, what: str = "") -> T:
    """Call ``predicate`` until it returns something true, and return that.

    ``deadline`` is in seconds. Raises TimeoutError, which names ``what`` was waited for and the last answer. What the
    predicate raises goes through at once.
    """
    began = time.monotonic()
    while not (answer := predicate()):
        waited = time.monotonic() - began
        if waited >= deadline:
            raise TimeoutError(f"waited {deadline:g} s for {what or predicate}; the last answer was {answer!r}")
        time.sleep(pause_after(waited))
    return answer
