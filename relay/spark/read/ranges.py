"""The division of a table among tasks.

Without a snapshot that all tasks share, the ranges are of the primary key: an event's id never changes, so that a row
that exists all the time is in exactly one range, whenever each task reads. Ranges of pages would not work: an update
moves a row to another page. With a shared snapshot they work, and each page is read by one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from pyspark.sql.datasource import InputPartition

from relay.postgres.connect import SyncConnection

_SAMPLED_PAGES: Final = 1000
_ROWS_WORTH_A_TASK: Final = 2000
_PAGES_WORTH_A_TASK: Final = 32


@dataclass
class Range(InputPartition):
    """One task's share: values of the statement's range parameters; None for no bound."""

    range_from: Any = None
    range_below: Any = None
    page_from: str | None = None
    page_below: str | None = None

    def values(self) -> dict[str, Any]:
        """Values for the statement's parameters."""
        return dict(self.__dict__)


def by_key(
    connection: SyncConnection, sample: LiteralString, values: dict[str, Any], pages: int, most: int
) -> list[Range]:
    """Up to ``most`` ranges of the key, cut at keys from a sample of the selected rows."""
    share = min(1.0, _SAMPLED_PAGES / max(pages, 1))
    if most == 1:
        return [Range()]
    keys = [key for (key,) in connection.execute(sample, {**values, "percent": 100 * share}).fetchall()]
    expected = len(keys) / share
    return between(_cuts(keys, max(1, min(most, int(expected / _ROWS_WORTH_A_TASK)))))


def by_page(pages: int, most: int) -> list[Range]:
    """Up to ``most`` ranges of pages; the last one has no end, for rows inserted meanwhile."""
    count = max(1, min(most, pages // _PAGES_WORTH_A_TASK))
    starts = [f"({pages * number // count},0)" for number in range(count)]
    return [Range(page_from=start, page_below=end) for start, end in zip(starts, [*starts[1:], None], strict=True)]


def between(cuts: Sequence[Any]) -> list[Range]:
    """The ranges before, between and after some keys."""
    return [Range(range_from=start, range_below=end) for start, end in zip([None, *cuts], [*cuts, None], strict=True)]


def _cuts(keys: Sequence[Any], count: int) -> list[Any]:
    """Keys that divide sorted keys into ``count`` equal shares."""
    return list(dict.fromkeys(keys[len(keys) * number // count] for number in range(1, count)))
