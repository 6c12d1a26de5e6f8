"""Replace the part of a document between two lines that mark it: tables that are written from the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

END: Final = "<!-- end -->"


def replace_between(text: str, begin: str, part: str) -> str:
    """``text`` with ``part`` between the line ``begin`` and the next ``END``. Raises ValueError without these lines."""
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(END)
    if not first or not last:
        raise ValueError(f"the document needs the lines {begin} and {END}")
    return f"{before}{begin}\n\n{part}\n{END}{after}"


def rewrite(path: str | Path, renewed: Callable[[str], str]) -> None:
    """Replace a document by what ``renewed`` makes of it. Raises ValueError as that does, and then writes nothing."""
    document = Path(path)
    document.write_text(renewed(document.read_text(encoding="utf-8")), encoding="utf-8")
