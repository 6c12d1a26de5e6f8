"""Patterns over event types, as routes and endpoints write them: ``*`` stands for any characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

_WILDCARDS: Final = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The expression whose ``fullmatch`` says whether an event type matches.

    Of what stands between two asterisks the first place decides, once and for all (``(?>``): with many asterisks a long
    type would otherwise be read again from each place of each of them.
    """
    first, *parts = map(re.escape, pattern.split("*"))
    if not parts:
        return re.compile(first)
    between = "".join(f"(?>.*?{part})" for part in parts[:-1])
    return re.compile(f"{first}{between}.*{parts[-1]}", re.DOTALL)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches all of the name."""
    return any(compile_pattern(pattern).fullmatch(name) for pattern in patterns)


def exactly(text: str) -> str:
    """What LIKE of SQL matches in this text alone."""
    return text.translate(_WILDCARDS)


def like(pattern: str) -> str:
    """What LIKE of SQL matches in the names that the pattern matches."""
    return "%".join(map(exactly, pattern.split("*")))


def covers(earlier: str, later: str) -> bool:
    """Whether every event type that ``later`` matches is matched by ``earlier``, too: exact, where neither is empty.

    What ``earlier`` makes of the text of ``later``, with its asterisks as characters, decides: only an asterisk of
    ``earlier`` can match one of ``later``.
    """
    return compile_pattern(earlier).fullmatch(later) is not None


def never_used(noun: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A sentence for each row of patterns that match only what rows before it take, where that is certain."""
    for index, own in enumerate(rows):
        takers = [_taker(pattern, rows[:index]) for pattern in own]
        numbers = sorted({number for number in takers if number is not None})
        if own and None not in takers:
            shown = f"{noun} {' and '.join(map(str, numbers))} take{'s' if len(numbers) == 1 else ''}"
            yield (
                f"{noun} {index + 1}: it is never used, because {shown} {', '.join(map(repr, own))} first; "
                "move it before that, or remove it"
            )


def _taker(pattern: str, rows: Sequence[Sequence[str]]) -> int | None:
    """The number of the first row that takes all that the pattern matches."""
    taking = (number for number, row in enumerate(rows, 1) if any(one and covers(one, pattern) for one in row))
    return next(taking, None) if pattern else None
