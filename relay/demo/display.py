"""What the demonstration shows: a table that changes on a terminal, one plain line now and then off it."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from relay.demo.ledger import LedgerTally

_LINE_EVERY = 2.0  # seconds, off a terminal


class Display:
    """Shows tallies while it is open. Off a terminal nothing is drawn: no boxes, no colours."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        self._last_line = -_LINE_EVERY

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def update(self, elapsed: float, tally: LedgerTally) -> None:
        """Show the sums of now, ``elapsed`` seconds after the start."""
        if self._live:
            self._live.update(_table(f"after {elapsed:.0f} s", describe(tally)))
        elif elapsed - self._last_line >= _LINE_EVERY:
            self._last_line = elapsed
            say(
                self._console,
                f"{elapsed:5.1f} s  committed {tally.committed}  received {tally.received}  on the way {tally.missing}"
                f"  rolled back {tally.rolled_back}  leaked {tally.leaked}  p50 {milliseconds(tally.p50)}",
            )


def describe(tally: LedgerTally) -> dict[str, str]:
    """The sums as names and values, in reading order."""
    withheld = {"events refused or due later": str(tally.withheld)} if tally.withheld else {}
    return {
        "transactions committed": str(tally.transactions_committed),
        "transactions rolled back": str(tally.transactions_rolled_back),
        **withheld,
        "events committed": str(tally.committed),
        "events received": str(tally.received),
        "events missing": str(tally.missing),
        "events rolled back": str(tally.rolled_back),
        "rolled back but received": str(tally.leaked),
        "duplicates": str(tally.duplicates),
        "events per second": f"{tally.per_second:.0f}",
        "latency p50": milliseconds(tally.p50),
        "latency p99": milliseconds(tally.p99),
    }


def summary(console: Console, rows: Mapping[str, str]) -> None:
    """Show the last sums: a table on a terminal, one line each off it."""
    if console.is_terminal:
        console.print(_table("summary", rows))
        return
    for name, value in rows.items():
        say(console, f"{name}: {value}")


def say(console: Console, text: str) -> None:
    """One line of text, as it is."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def milliseconds(seconds: float | None) -> str:
    """A time in milliseconds, or a dash where there is none yet."""
    return "-" if seconds is None else f"{seconds * 1000:.0f} ms"


def _table(title: str, rows: Mapping[str, str]) -> Table:
    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right", min_width=10)
    for name, value in rows.items():
        table.add_row(name, value)
    return table
