"""What ``benchmarks.growth`` measures, its tables, and what it says about a larger database."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

SERIES: Final = {
    "relays": "batch 100",
    "batch": "batch 1000",
    "delete": "batch 1000, ON_DELIVERED=delete",
}
"""Those that vary the number of relays, and their labels."""
PLACES: Final = {
    "table": "one table",
    "schema": "two tables of one database",
    "database": "two databases of one server",
    "server": "two servers",
}
"""Where the outboxes of two relays are, and their labels."""
_CORES: Final = 16
_NEARLY: Final = 0.95  # of the most events/s: more relays are not worth their cost
_FIGURES: Final = (
    "events_per_second",
    "relay_microseconds",
    "postgres_microseconds",
    "wal_bytes",
    "steal",
    "others",
)
_HEADS: Final = (
    "series",
    "relays",
    "tables",
    "batch",
    "on delivery",
    "order",
    "keys",
    "waiting rows",
    "delivered rows",
    "events/s",
    "relays' CPU us an event",
    "PostgreSQL CPU us an event",
    "WAL bytes an event",
    "steal",
    "other cores",
)


@dataclass(frozen=True)
class Growth:
    """One cell; CPU time and write-ahead log are an event's."""

    series: str
    relays: int
    waiting: int
    """Rows to deliver when it begins, over all tables."""
    delivered: int = 0
    """Rows delivered before, in each table."""
    tables: int = 1
    place: str = "table"
    """What each of several tables has of its own: a key of ``PLACES``."""
    batch: int = 100
    on_delivered: str = "keep"
    ordering: str = "none"
    keys: int = 1000
    events_per_second: float = 0.0
    relay_microseconds: float = 0.0
    """Of all relays together."""
    postgres_microseconds: float = 0.0
    wal_bytes: float = 0.0
    steal: float | None = None
    """As ``benchmarks.disturbance`` measures it, as the next one."""
    others: float | None = None


def medians(cells: Sequence[Growth]) -> list[Growth]:
    """One cell for each that was measured, with the medians of its rounds; of what disturbed them, the most."""
    groups: dict[Growth, list[Growth]] = {}
    for cell in cells:
        groups.setdefault(_plan(cell), []).append(cell)
    return [
        replace(
            plan,
            events_per_second=statistics.median(cell.events_per_second for cell in rounds),
            relay_microseconds=statistics.median(cell.relay_microseconds for cell in rounds),
            postgres_microseconds=statistics.median(cell.postgres_microseconds for cell in rounds),
            wal_bytes=statistics.median(cell.wal_bytes for cell in rounds),
            steal=max((cell.steal for cell in rounds if cell.steal is not None), default=None),
            others=max((cell.others for cell in rounds if cell.others is not None), default=None),
        )
        for plan, rounds in groups.items()
    ]


def _plan(cell: Growth) -> Growth:
    return Growth(**{name: value for name, value in asdict(cell).items() if name not in _FIGURES})


def rounds(cells: Sequence[Growth]) -> str:
    """How many rounds the medians are of, as a sentence."""
    counts = Counter(map(_plan, cells))
    most = max(counts.values())
    fewer = sorted({max(cell.waiting, cell.delivered) for cell, number in counts.items() if number < most})
    but = f", of fewer with {', '.join(f'{rows:,}' for rows in fewer)} rows" if fewer else ""
    return f"Medians of {most} rounds{but}." if most > 1 else "One round."


def _rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def table(cells: Sequence[Growth]) -> str:
    """Medians as Markdown."""
    rows = []
    for cell in medians(cells):
        tables = f"{cell.tables}, each a {cell.place}"
        plan = [cell.series, f"{cell.relays}", tables, f"{cell.batch}", cell.on_delivered, cell.ordering]
        counts = [f"{number:,}" for number in (cell.keys, cell.waiting, cell.delivered)]
        costs = [f"{cell.relay_microseconds:.1f}", f"{cell.postgres_microseconds:.1f}", f"{cell.wal_bytes:,.0f}"]
        others = [f"{cell.steal or 0:.1%}", f"{cell.others or 0:.2f}"]
        rows.append([*plan, *counts, f"{cell.events_per_second:,.0f}", *costs, *others])
    return _rows(_HEADS, rows)


def estimate(cells: Sequence[Growth], target: float = 100_000.0) -> str:
    """What ``target`` events a second take, and how many 16 cores of PostgreSQL deliver, as Markdown.

    Every figure is one relay's an event, times the events.
    """
    known = {cell.series: cell for cell in medians(cells) if cell.relays <= 1}
    heads = [f"at {target:,.0f} events/s", "PostgreSQL cores", "WAL MB/s", "cores of the relays"]
    heads += [f"events/s that fill {_CORES} cores of PostgreSQL, inserts included", "WAL MB/s then"]
    rows = []
    insert = known.get("insert")
    for label, series in (
        ("the application's inserts, one a transaction", "insert"),
        *((f"claim and settle, {label}", series) for series, label in SERIES.items()),
    ):
        if cell := known.get(series):
            costs = (cell.postgres_microseconds, cell.wal_bytes, cell.relay_microseconds)
            cores, wal, own = (value * target / 1e6 for value in costs)
            full = ["", ""] if insert is None or cell is insert else _full(insert, cell)
            rows.append([label, f"{cores:.1f}", f"{wal:.0f}", f"{own:.1f}", *full])
    return _rows(heads, rows)


def _full(insert: Growth, relay: Growth) -> list[str]:
    """The events a second whose inserts and deliveries fill the cores, and their MB/s of log."""
    pace = _CORES * 1e6 / (insert.postgres_microseconds + relay.postgres_microseconds)
    return [f"{pace:,.0f}", f"{(insert.wal_bytes + relay.wal_bytes) * pace / 1e6:.0f}"]


def knees(cells: Sequence[Growth]) -> str:
    """How many relays are enough in each series, as Markdown."""
    heads = [
        "",
        f"relays for {_NEARLY:.0%} of the most events/s",
        "their events/s, of one relay's",
        "events/s with more relays, of one relay's",
        "PostgreSQL CPU an event with more relays, of one relay's",
    ]
    rows = []
    for series, label in SERIES.items():
        line = sorted((cell for cell in medians(cells) if cell.series == series), key=lambda cell: cell.relays)
        if len(line) < 2:
            continue
        most = max(cell.events_per_second for cell in line)
        enough = next(cell for cell in line if cell.events_per_second >= _NEARLY * most)
        pace, last = (cell.events_per_second / line[0].events_per_second for cell in (enough, line[-1]))
        cost = line[-1].postgres_microseconds / line[0].postgres_microseconds
        rows.append([label, f"{enough.relays}", f"{pace:.2f}", f"{last:.2f} ({line[-1].relays})", f"{cost:.2f}"])
    return _rows(heads, rows)


def places(cells: Sequence[Growth]) -> str:
    """What two relays deliver on one table and on two, as Markdown; empty where that was not measured."""
    known = {(cell.place, cell.batch): cell for cell in medians(cells) if cell.series == "places"}
    batches = sorted({batch for _, batch in known})
    heads = ["two relays on"]
    for batch in batches:
        heads += [f"batch {batch}: events/s", "of one table's", "PostgreSQL CPU us an event"]
    rows = []
    for place, label in PLACES.items():
        row = [label]
        for batch in batches:
            cell, one = known.get((place, batch)), known.get(("table", batch))
            if cell and one:
                pace = cell.events_per_second
                row += [f"{pace:,.0f}", f"{pace / one.events_per_second:.2f}", f"{cell.postgres_microseconds:.1f}"]
        if len(row) == len(heads):
            rows.append(row)
    return _rows(heads, rows) if batches else ""
