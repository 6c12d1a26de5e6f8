"""JSON that is shown or passed on as it is stored: no number loses a digit, no name that stands twice is lost.

Parsing and writing it again would change both. For the console, its API and ``relay-cli``; nothing here fails for a
text, however broken: what is no JSON is ``None``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')
_OPENING: Final = frozenset("[{")
_CLOSING: Final = frozenset("]}")


def indented(text: str) -> str | None:
    """The same JSON, two spaces a level; None for any other text, and for what is nested too deep for Python."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None
    return "".join(_laid_out(_TOKEN.findall(text)))


def members(text: str) -> dict[str, str] | None:
    """The members of an object: a text by what it says, others as they are written; None for what is no object."""
    try:
        fields = json.loads(text, parse_int=str, parse_float=str, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    values = _values(_TOKEN.findall(text))
    return {_sayable(name): _sayable(json.loads(value)) if value.startswith('"') else value for name, value in values}


def written(value: object) -> str:
    """A value as JSON that any text can hold: half a surrogate pair stays an escape."""
    return _sayable(json.dumps(value, ensure_ascii=False))


def with_member(document: str, name: str, text: str) -> str:
    """An object of at least one member, with one more whose value is this JSON."""
    return f"{document[:-1]},{json.dumps(name)}:{text}}}"


def _sayable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def refuse_constant(constant: str) -> None:
    """What Python's parser does with NaN and infinity, as its ``parse_constant``. Raises ValueError."""
    raise ValueError(f"{constant} is not JSON")


def _laid_out(parts: list[str]) -> Iterator[str]:
    depth, previous = 0, ""
    for part in parts:
        depth -= part in _CLOSING
        if previous == "," or (previous in _OPENING) != (part in _CLOSING):
            yield "\n" + "  " * depth
        yield ": " if part == ":" else part
        depth += part in _OPENING
        previous = part


def _values(parts: list[str]) -> Iterator[tuple[str, str]]:
    """Each name of the outermost object with its value."""
    depth, name = 0, ""
    value: list[str] = []
    for part in parts[1:-1]:
        depth += (part in _OPENING) - (part in _CLOSING)
        if depth == 0 and part == ":":
            name, value = json.loads(value[0]), []
        elif depth == 0 and part == ",":
            yield name, "".join(value)
            value = []
        else:
            value.append(f"{part} " if part in {",", ":"} else part)
    if len(parts) > 2:
        yield name, "".join(value)
