"""A clock for what takes one as a parameter."""

from __future__ import annotations


class Clock:
    """A clock that moves only when the test moves it; seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
