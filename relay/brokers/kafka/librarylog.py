"""What librdkafka logs, without its repetitions."""

from __future__ import annotations

import logging
import re
import time
from typing import Final

LIBRARY_LOG: Final = logging.getLogger("librdkafka")
_SAME_LINE_EVERY = 30.0  # seconds; librdkafka repeats its lines at every attempt to connect
_GAPLESS_LINE = re.compile("gapless|Gap-less")
_NUMBER = re.compile(r"\d+")  # a line holds the client's number and milliseconds


def not_repeated(record: logging.LogRecord, _seen: dict[str, float] = {}) -> bool:  # noqa: B006  # state of the filter
    """Log filter: the same line of librdkafka, its numbers ignored, passes once in 30 s.

    Never what it says of the guarantee that runs need: the publisher replaces a client that stops for it.
    """
    if _GAPLESS_LINE.search(record.getMessage()):
        return False
    text, now = _NUMBER.sub("#", record.getMessage()), time.monotonic()
    if now - _seen.get(text, -_SAME_LINE_EVERY) < _SAME_LINE_EVERY:
        return False
    if len(_seen) > 1000:
        _seen.clear()
    _seen[text] = now
    return True
