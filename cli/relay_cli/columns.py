"""A table as wide as the terminal: columns that fit, in one line a row, the most important ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

_GAP: Final = "  "
_CUT: Final = "…"
_EXTRA: Final = 5


class ScreenColumn(NamedTuple):
    """One column of a table for people."""

    name: str
    cells: Sequence[str]
    rank: int
    """The lower, the more important. Below ``_EXTRA``, a column is shown as narrow as it may be; from there on only
    where every column has room for three times that."""
    least: int = 0
    """The narrowest width to which cells are cut; 0 leaves them whole."""
    paint: Callable[[str, str], str] = lambda _, shown: shown
    """Takes a cell and its padded text, and returns that text in colour."""

    @property
    def widest(self) -> int:
        """The width that shows every cell whole."""
        return max(map(len, (self.name, *self.cells)))

    @property
    def comfortable(self) -> int:
        """The width that shows most cells whole."""
        return min(self.widest, 3 * self.least or self.widest)

    @property
    def narrowest(self) -> int:
        """The width below which the column is left out."""
        return min(self.widest, self.least or self.widest)


class Fitted(NamedTuple):
    """The lines, and whether they show less than everything."""

    lines: list[str]
    shortened: bool


def fit(columns: Sequence[ScreenColumn], width: int) -> Fitted:
    """The header and the rows, in at most ``width`` columns of the terminal where the first column allows it.

    A column without a value in any row is left out.
    """
    useful = [column for column in columns if any(column.cells)]
    chosen: list[ScreenColumn] = []
    for column in sorted(useful, key=lambda each: each.rank):
        candidates = [*chosen, column]
        needed = [each.narrowest if column.rank < _EXTRA else each.comfortable for each in candidates]
        if not chosen or sum(needed) + len(_GAP) * len(chosen) <= width:
            chosen = candidates
    left = width - sum(each.narrowest for each in chosen) - len(_GAP) * (len(chosen) - 1)
    widths = {}
    for column in chosen:  # by rank
        more = min(max(left, 0), column.widest - column.narrowest)
        widths[column.name] = column.narrowest + more
        left -= more
    shown = [column for column in useful if column.name in widths]
    rows = [[(column, column.cells[row]) for column in shown] for row in range(len(columns[0].cells))]
    header = _line([(column, column.name) for column in shown], widths, header=True)
    lines = [header, *(_line(row, widths) for row in rows)]
    return Fitted(lines, len(shown) < len(useful) or any(widths[each.name] < each.widest for each in shown))


def _line(cells: Sequence[tuple[ScreenColumn, str]], widths: dict[str, int], *, header: bool = False) -> str:
    parts = []
    for number, (column, text) in enumerate(cells):
        width = widths[column.name]
        shown = text if len(text) <= width else text[: width - 1].rstrip() + _CUT
        if number < len(cells) - 1:
            shown = shown.ljust(width)
        parts.append(shown if header else column.paint(text, shown))
    return _GAP.join(parts).rstrip()
