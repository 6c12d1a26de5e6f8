"""The output of commands: lines and JSON on standard output, progress on standard error of a terminal only."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final, TextIO, cast

import typer

from relay.core.durations import time_text
from relay.core.json_text import with_member
from relay.core.outside import harmless

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from relay.postgres.migrations import MigrationPlan

PAINT: Final = {
    "\ufdd0": "\x1b[31m\x1b[1m",
    "\ufdd1": "\x1b[33m",
    "\ufdd2": "\x1b[32m",
    "\ufdd3": "\x1b[0m",
}
"""What switches colours, by what stands for it until it is printed: noncharacters, which Unicode gives to no text."""
_KEPT: Final = "\n\t"
_BAR_DELAY: Final = 2.0  # seconds of work before the progress bar appears


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text: the one way in which a command prints it.

    Whatever an application wrote into it controls no terminal: control characters and those that turn the direction of
    text around are escaped. Colours are painted by ``relay_cli.screen``.
    """
    shown = harmless(str(text), _KEPT + "".join(PAINT))
    for mark, switch in PAINT.items():
        shown = shown.replace(mark, switch)
    typer.echo(shown, err=err, nl=nl)


def print_json(answer: object, **written: str) -> None:
    """Print one JSON value on one line; times in ISO 8601, UTC. Control characters are escaped, as JSON has it.

    ``written`` are further members of an object, whose values are JSON already and stay as they are.
    """
    text = json.dumps(answer, ensure_ascii=False, default=json_form)
    for name, value in written.items():
        text = with_member(text, name, value)
    typer.echo("".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text))


def on_terminal(stream: TextIO) -> TextIO:
    """``stream`` for what must stay as it is in a file: only on a terminal it is escaped."""
    return cast("TextIO", _Terminal(stream)) if stream.isatty() else stream


class _Terminal:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(harmless(text, _KEPT))

    def flush(self) -> None:
        self._stream.flush()


def json_form(value: object) -> str:
    """The JSON string for a value of a type that JSON does not have."""
    return moment(value) if isinstance(value, datetime) else str(value)


def moment(value: object) -> str:
    """A time as text: ISO 8601, UTC, to the microsecond; ``str`` of any other value."""
    return time_text(value, "microseconds") if isinstance(value, datetime) else str(value)


def plural(count: int, noun: str) -> str:
    """``1 event``, ``2 events``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def clear_screen() -> None:
    """Clear the screen on a terminal; elsewhere print an empty line."""
    typer.echo("\x1b[H\x1b[2J" if sys.stdout.isatty() else "\n", nl=False)


def one_line(value: object) -> str:
    """A value of the table, safe to print: control characters, which could control the terminal, are escaped."""
    return harmless("" if value is None else moment(value))


def block(text: str) -> str:
    """Text of several lines, safe to print."""
    return "\n".join(one_line(line.replace("\t", "    ")) for line in text.split("\n"))


def print_pending(plan: MigrationPlan, room: str) -> None:
    """Print what a room's migrate would do, as SQL with comments; for reading, because migrate also records it."""
    if plan.up_to_date:
        say(f"-- {room} is up to date")
    for pending in plan.pending:
        say(f"-- migration {pending.number}: {pending.name}")
        for sql in pending.statements:
            say(f"{sql.rstrip()};")
    if plan.definitions:
        say("-- functions and triggers")
    for sql in plan.definitions:
        say(f"{sql.rstrip()};")


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
