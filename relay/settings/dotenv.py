"""The ``.env`` file: read by python-dotenv's parser, against the environment that was handed in.

``${NAME}`` and ``${NAME:-default}`` in a value are replaced from the environment, then from the lines above. The
process's environment is neither read nor changed, and nothing is logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path


def read_dotenv(path: Path, environ: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """The variables of a file that may be absent; its faults are appended to ``problems``."""
    if not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        problems.append(f"{path} cannot be read: {reason}")
        return {}
    from dotenv.parser import parse_stream  # noqa: PLC0415 - only with a file
    from dotenv.variables import parse_variables  # noqa: PLC0415

    values: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error:
            problems.append(f"{path}: line {binding.original.line} is not NAME=value")
        elif binding.key is not None and binding.value is not None:
            known: dict[str, str | None] = {**values, **environ}
            values[binding.key] = "".join(atom.resolve(known) for atom in parse_variables(binding.value))
    return values
