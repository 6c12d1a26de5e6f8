"""From the text of the ``headers`` column to the names and values of a message (docs/reference/messages.md#headers).

Strings travel as they are; every other value travels as PostgreSQL's own JSON text, cut out of the column's text
rather than parsed and printed again, so that a number of any length or precision arrives digit for digit. A
``headers`` value that is not an object becomes the one header ``X-Raw-Headers``. Nothing here raises: a header is
never a reason to lose an event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice

RAW_HEADERS = "X-Raw-Headers"
REPLAY_HEADER = "replay_id"
"""Header that Spark's replay adds to a copy: the id of the replay."""

Header = tuple[str, str]

_NOT_SPACE = re.compile(r"\S")
_SCALAR = re.compile(r"[^\s,\]}]+")
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
# What json.loads calls in the end, without its looks for space around the text.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_decode_string = json.decoder.scanstring  # type: ignore[attr-defined]


def wire_headers(text: str) -> list[Header]:
    """Names and values for the text of a ``headers`` column, in the column's order."""
    if text == "{}":
        return []
    try:
        parsed, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError):
        # Numbers of thousands of digits and nesting of thousands of levels are valid jsonb that json refuses.
        parsed, end = None, 0
    if type(parsed) is dict and end == len(text):
        for value in parsed.values():
            if type(value) is not str:
                break
        else:
            return list(parsed.items())
    stripped = text.strip()
    if not stripped.startswith("{"):
        return [(RAW_HEADERS, stripped)]
    try:
        return [(name, value) for name, value, _, _ in _members(stripped)]
    except (ValueError, IndexError, AttributeError):
        return [(RAW_HEADERS, stripped)]


def has_more_headers(text: str, most: int) -> bool:
    """Whether the text of a ``headers`` column has more members than that. Cheaper than ``wire_headers``."""
    if text.count('": ') <= most:  # of which some may stand in a value
        return False
    try:
        parsed, _ = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError):
        return _has_more_members(text, most)
    return type(parsed) is dict and len(parsed) > most


def _has_more_members(text: str, most: int) -> bool:
    """Go from member to member, for what json refuses."""
    try:
        return next(islice(_members(text), most, None), None) is not None
    except (ValueError, IndexError, AttributeError):
        return False


def replace_header(text: str, name: str, value: str) -> str:
    """The text of a ``headers`` column with the value of one member replaced by a string, all else verbatim.

    Unchanged without such a member.
    """
    stripped = text.strip()
    try:
        for member, _, start, end in _members(stripped):
            if member == name:
                return f"{stripped[:start]}{json.dumps(value)}{stripped[end:]}"
    except (ValueError, IndexError, AttributeError):
        return text
    return text


def _members(text: str) -> Iterator[tuple[str, str, int, int]]:
    """The members of the JSON object that ``text`` holds, and where each value begins and ends; without recursion."""
    at = _skip_space(text, 1)
    while text[at] != "}":
        name, at = _decode_string(text, at + 1, False)
        at = _skip_space(text, _skip_space(text, at) + 1)  # past the colon
        start = at
        value, at = _value(text, start)
        yield name, value, start, at
        at = _skip_space(text, at)
        if text[at] == ",":
            at = _skip_space(text, at + 1)


def _value(text: str, at: int) -> tuple[str, int]:
    """The value that begins at ``at`` and the index behind it: a string decoded, all else verbatim."""
    first = text[at]
    if first == '"':
        value, end = _decode_string(text, at + 1, False)
        return value, end
    end = _structure_end(text, at) if first in "[{" else _scalar_end(text, at)
    return text[at:end], end


def _structure_end(text: str, at: int) -> int:
    depth = 0
    for token in _STRUCTURE.finditer(text, at):
        if token.group() in "[{":
            depth += 1
        elif token.group() in "]}":
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError("unbalanced JSON")


def _scalar_end(text: str, at: int) -> int:
    match = _SCALAR.match(text, at)
    if match is None:
        raise ValueError("missing JSON value")
    return match.end()


def _skip_space(text: str, at: int) -> int:
    match = _NOT_SPACE.search(text, at)
    return match.start() if match else len(text)
