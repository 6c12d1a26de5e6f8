"""The content of a page, and its HTML.

The template escapes every text: event types, keys and errors are untrusted input. Only the plots are markup; they
contain no such text (``relay.spark.page.plots``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

LONGEST_CELL: Final = 120  # characters


@dataclass(frozen=True, slots=True)
class Figure:
    """A number at the top. ``tone`` is ``good``, ``bad`` or ``plain``."""

    name: str
    value: str
    note: str = ""
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot; ``text`` describes it, for screen readers too."""

    title: str
    svg: str
    text: str


@dataclass(frozen=True, slots=True)
class PageTable:
    """Cells as text. ``numeric`` has the positions of right-aligned columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A page."""

    title: str
    verdict: str
    lead: str
    figures: Sequence[Figure]
    plots: Sequence[Plot]
    tables: Sequence[PageTable]
    facts: Sequence[tuple[str, str]]
    """How the result was computed: sources, times, filters."""
    good: bool | None = None
    """Whether the verdict is good; None for neither."""
    notes: Sequence[str] = field(default=())


def render(document: Document) -> str:
    """The page as HTML."""
    environment = Environment(
        loader=PackageLoader("relay.spark.page", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["short"] = _short
    return environment.get_template("page.html").render(page=document)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
