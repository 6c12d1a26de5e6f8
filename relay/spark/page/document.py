"""What a page has to show, and the page made of it.

Every text is escaped by the template: event types, keys and errors are other people's input. Only the plots, which no
such text is in (``relay.spark.page.plots``), are markup already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

MOST_CELL: Final = 120  # characters


@dataclass(frozen=True, slots=True)
class Figure:
    """A number to see first. ``tone`` is ``good``, ``bad`` or ``plain``."""

    name: str
    value: str
    note: str = ""
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot; ``text`` says what can be seen in it, for those who cannot."""

    title: str
    svg: str
    text: str


@dataclass(frozen=True, slots=True)
class PageTable:
    """Cells as text. ``numeric`` are the places of columns that are set to the right."""

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
    """How it came about: sources, times, what was left out."""
    good: bool | None = None
    """Whether the verdict is good news; None where it is none."""
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
    return text if len(text) <= MOST_CELL else text[: MOST_CELL - 1] + "…"
