"""One SQL file, several variants of it: optional lines chosen by tags, nothing ever written into the text.

A line ending in ``--? words`` stands only in the variants for which all of its words hold: ``x`` when the tag x is
on, ``!x`` when it is off, ``x|y`` when one of both is on. A marked line that is commented out, because it is the
alternative of another, is uncommented when it is chosen. So every file is, as it stands, an ordinary statement, and
values are bound as anywhere else.
"""

from __future__ import annotations

import re
from functools import lru_cache

from relay.core.sqltext import load_sql

_MARKED = re.compile(r"^(?P<text>.*?)\s*--\?\s*(?P<words>.+?)\s*$")


@lru_cache(maxsize=4096)
def variant(path: str, tags: frozenset[str]) -> str:
    """The statement of one file under ``sql/`` with the lines that ``tags`` choose."""
    lines = []
    for line in load_sql(path).splitlines():
        match = _MARKED.match(line)
        if match is None:
            lines.append(line)
        elif all(_holds(word, tags) for word in match["words"].split()):
            lines.append(re.sub(r"^(\s*)-- ", r"\1", match["text"]))
    return "\n".join(lines)


def _holds(word: str, tags: frozenset[str]) -> bool:
    return any(choice[1:] not in tags if choice.startswith("!") else choice in tags for choice in word.split("|"))
