"""TOML files that variables name: read as a whole, with errors that show no value of the file."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from relay.core.errors import ConfigError

_POSITION: Final = re.compile(r"\((at [^()]*)\)$")


def read_toml(path: str, variable: str, example: str) -> dict[str, Any]:
    """The content of the file that ``variable`` names. Raises ConfigError with the position of a fault, and an example.

    The library's own messages may quote a part of a line, which may hold a secret: of these only the position is shown.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        position = _POSITION.search(str(error))
        where = position[1] if position else "somewhere"
        raise ConfigError(f"{variable}: {path!r} is not TOML: there is an error {where}; {example}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{variable}: {path!r} cannot be read: it is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise ConfigError(f"{variable}: {path!r} cannot be read: {reason}; correct the path or its rights") from None


def read_list(path: str, variable: str, key: str, noun: str, example: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The tables of a file that is one list of them, and what is wrong with the list. Raises ConfigError as above."""
    content = read_toml(path, variable, example)
    problems = [f"{unknown_key(one, [key])} at the top of the file" for one in sorted(content.keys() - {key})]
    tables = content.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        return [], [*problems, f"{key} is not a list of tables; {example}"]
    if not tables and not problems:
        problems.append(f"it holds no {noun}; {example}, or unset {variable}")
    return tables, problems


def unknown_key(key: str, known: Collection[str], otherwise: str = "") -> str:
    """The sentence about a key that is not known; without a similar one it says ``otherwise``, or what is known."""
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]}?" if near else otherwise or f"write {', '.join(known)}"
    return f"{key!r} is not known; {hint}"
