"""The output of commands: lines and JSON on standard output, progress on standard error of a terminal only."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_BAR_DELAY: Final = 2.0  # seconds of work before the progress bar appears


def print_json(answer: Mapping[str, object]) -> None:
    """Print one JSON object on one line; times in ISO 8601, UTC."""
    typer.echo(json.dumps(answer, ensure_ascii=False, default=json_form))


def json_form(value: object) -> str:
    """The JSON string for a value of a type that JSON does not have."""
    return moment(value) if isinstance(value, datetime) else str(value)


def moment(value: object) -> str:
    """A time as text: ISO 8601, UTC, to the microsecond; ``str`` of any other value."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return str(value)


def plural(count: int, noun: str) -> str:
    """``1 event``, ``2 events``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def clear_screen() -> None:
    """Clear the screen on a terminal; elsewhere print an empty line."""
    typer.echo("\x1b[H\x1b[2J" if sys.stdout.isatty() else "\n", nl=False)


def one_line(value: object) -> str:
    """A value of the table, safe to print: control characters, which could control the terminal, are escaped."""
    text = "" if value is None else moment(value)
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def block(text: str) -> str:
    """Text of several lines, safe to print."""
    return "\n".join(one_line(line.replace("\t", "    ")) for line in text.split("\n"))


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


class Bar:
    """A progress bar that appears after two seconds, on a terminal only."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._start_time = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    @property
    def possible(self) -> bool:
        """Whether standard error is a terminal: only then is a total worth counting."""
        return sys.stderr.isatty()

    def show(self, done: int, total: int | None) -> None:
        """Draw the progress; ``total`` is None when it is unknown."""
        if not self.possible or time.monotonic() - self._start_time < _BAR_DELAY:
            return
        if self._progress is None:
            self._start()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def close(self) -> None:
        """Remove the bar from the screen."""
        if self._progress is not None:
            self._progress.stop()

    def _start(self) -> None:
        from rich.console import Console  # costs 40 ms, which most runs save
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(self._title)
        self._progress.start()
