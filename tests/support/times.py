"""The one style in which the API and the command line write a time."""

from __future__ import annotations

import re
from typing import Final

_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_RFC_3339: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3}|\.\d{6})?Z"
_CLOCK: Final = r"[T ]\d\d(?::\d\d)*(?:\.\d+)?(?:Z|[+-]\d\d(?::\d\d)*| UTC)?"
_TIME: Final = re.compile(
    rf"(?<![\w:.+-])(?:\d{{4}}-\d\d-\d\d(?:{_CLOCK})?|\d\d:\d\d:\d\d|\d\d? (?:{_MONTHS}) \d{{4}})(?!\w)"
)


def other_times(text: str) -> list[str]:
    """The times in ``text`` that are not RFC 3339 in UTC, to the second or to milli- or microseconds."""
    return [time for time in _TIME.findall(text) if re.fullmatch(_RFC_3339, time) is None]
