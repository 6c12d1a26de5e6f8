"""Patterns over event types, as routes and endpoints write them: ``*`` stands for any characters."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The expression whose ``fullmatch`` says whether an event type matches."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def covers(earlier: str, later: str) -> bool:
    """Whether every event type that ``later`` matches is matched by ``earlier``, too: exact, where neither is empty.

    What ``earlier`` makes of the text of ``later``, with its asterisks as characters, decides: only an asterisk of
    ``earlier`` can match one of ``later``.
    """
    return compile_pattern(earlier).fullmatch(later) is not None
