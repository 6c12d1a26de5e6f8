"""What a terminal shows: its width, colours, and lines that break between words. Off a terminal, lines stay whole."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Final, TextIO

import typer

_NARROWEST: Final = 40  # columns; below that, nothing is fitted


def columns(stream: TextIO) -> int | None:
    """The width of the terminal behind ``stream``; None where it is none."""
    return max(shutil.get_terminal_size().columns, _NARROWEST) if stream.isatty() else None


def wrapped(text: str, width: int | None, indent: str = "") -> str:
    """``text`` in lines of at most ``width`` columns, which break between words; None leaves it whole."""
    if width is None:
        return text
    lines = [
        textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def print_error(message: str, *advice: str) -> None:
    """Print what failed and why on standard error, then what to do."""
    width = columns(sys.stderr)
    label = typer.style("error:", fg="red", bold=True) if colored(sys.stderr) else "error:"
    typer.echo(f"{label}{wrapped(f'error: {message}', width, '  ')[len('error:') :]}", err=True)
    for line in advice:
        typer.echo(wrapped(f"-> {line}", width, "   "), err=True)


def colored(stream: TextIO) -> bool:
    """Whether to colour what ``stream`` shows: a terminal, and NO_COLOR is unset."""
    from relay.settings.screen import no_color

    return stream.isatty() and not no_color()
