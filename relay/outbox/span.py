"""Places in the queue, and the span of them that one claim looks at."""

from __future__ import annotations

from typing import Final, NamedTuple

_MICROSECOND: Final = 1e-6

Place = tuple[float, float]
"""``available_at`` and ``created_at`` in seconds since 1970: the order of claims."""
BEFORE_ALL: Final[Place] = (float("-inf"), float("-inf"))
BEHIND_ALL: Final[Place] = (float("inf"), float("inf"))


class ClaimSpan(NamedTuple):
    """Where one claim looks, and under which settings it was sent."""

    first: Place
    end: Place
    """The first place that it does not look at; BEHIND_ALL but for a stretch behind the head."""
    version: int
    tid: str | None = None
    """Of the rows that share its first place, and of no others, those behind this place in the table."""

    @property
    def is_stretch(self) -> bool:
        """Whether it is behind the head, and says nothing about it."""
        return self.end != BEHIND_ALL

    def parameters(self) -> dict[str, float]:
        """Those of the statements that walk the queue's index."""
        (due_from, created_from) = self.first
        (due_until, created_until) = self.end if self.tid is None else after(self.first)
        return {
            "due_from": due_from,
            "created_from": created_from,
            "due_until": due_until,
            "created_until": created_until,
        }


EVERYWHERE: Final = ClaimSpan(BEFORE_ALL, BEHIND_ALL, 0)
"""All due rows."""


def after(place: Place) -> Place:
    """The place right behind."""
    return place[0], place[1] + _MICROSECOND
