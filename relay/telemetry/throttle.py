"""A limit on how often the same thing is said, so that an outage is a few lines a second and not a flood."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from relay.core.outside import cut

_MOST_KEYS = 1024


@dataclass(slots=True)
class _Window:
    started: float
    admitted: int = 0
    suppressed: int = 0


class Throttle:
    """Admits each key ``limit`` times in ``seconds``. For one thread at a time; memory is bounded."""

    def __init__(self, limit: int = 1, seconds: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._windows: dict[Hashable, _Window] = {}

    def admit(self, key: Hashable) -> int | None:
        """None when ``key`` has had its share; else how many times it was turned away since last admitted."""
        now = self._clock()
        window = self._windows.get(key)
        if window is None:
            self._make_room(now)
            window = self._windows[key] = _Window(now)
        elif now - window.started >= self._seconds:
            window.started, window.admitted = now, 0
        if window.admitted >= self._limit:
            window.suppressed += 1
            return None
        window.admitted += 1
        suppressed, window.suppressed = window.suppressed, 0
        return suppressed

    def _make_room(self, now: float) -> None:
        if len(self._windows) >= _MOST_KEYS:
            fresh = {key: entry for key, entry in self._windows.items() if now - entry.started < self._seconds}
            self._windows = fresh if len(fresh) < _MOST_KEYS else {}


class RepetitionFilter(logging.Filter):
    """Lets a warning or error through once a second by its text, and ten times a second by its template.

    The next line that gets through carries ``suppressed``, the number of those that did not. Lines below WARNING
    always pass. A handler calls its filters without its lock: what two threads may lose here is a count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._same_text = Throttle(1, 1.0, clock)
        self._same_template = Throttle(10, 1.0, clock)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        if record.levelno < logging.WARNING:
            return True
        # structlog hands over its fields as a dictionary, with the text under "event"
        template = str(record.msg.get("event")) if isinstance(record.msg, dict) else str(record.msg)
        repeated = self._same_text.admit((record.name, record.levelno, cut(template), cut(str(record.args))))
        if repeated is None:
            return False
        # a template that is nothing but its argument does not make two lines alike
        alike = 0 if template == "%s" else self._same_template.admit((record.name, record.levelno, cut(template)))
        if alike is None:
            return False
        if repeated + alike:
            record.suppressed = repeated + alike
        return True
