"""Events that a rule drops: counted for each event type, and said in the log once a minute."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

logger = logging.getLogger(__name__)

_SAY_AGAIN = 60.0  # seconds
_MOST_TYPES = 1000
_OTHERS = "…"


class Drops:
    """The account of one relay; one type beyond ``_MOST_TYPES`` counts with the others under ``…``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.counts: Counter[str] = Counter()
        """Events dropped, by event type."""
        self._unsaid: Counter[str] = Counter()
        self._said_at: dict[str, float] = {}

    def add(self, event_type: str, rule: int) -> None:
        """One event of this type was dropped by the rule of that number."""
        if event_type not in self.counts and len(self.counts) >= _MOST_TYPES:
            event_type = _OTHERS
        self.counts[event_type] += 1
        self._unsaid[event_type] += 1
        now = self._clock()
        if now - self._said_at.get(event_type, float("-inf")) < _SAY_AGAIN:
            return
        self._said_at[event_type] = now
        count = self._unsaid.pop(event_type)
        logger.info(
            "route %d drops events of type %s: they count as delivered and are not sent",
            rule,
            event_type,
            extra={"action": "events_dropped", "event_type": event_type, "events": count},
        )
