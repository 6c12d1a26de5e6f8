"""What a terminal shows: its width, colours, and lines that break between words. Off a terminal, lines stay whole."""

from __future__ import annotations

import shutil
import sys
import textwrap
from datetime import UTC, datetime
from typing import Final, TextIO

from relay_cli.output import PAINT, say

_RED, _YELLOW, _GREEN, _PLAIN = PAINT
_COLORS: Final = {
    "error": _RED,
    "dead": _RED,
    "failed": _RED,
    "warning": _YELLOW,
    "ok": _GREEN,
    "success": _GREEN,
}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_NARROWEST: Final = 40  # columns; below that, nothing is fitted


def columns(stream: TextIO | None = None) -> int | None:
    """The width of the terminal behind ``stream``, by default standard output; None where it is none."""
    return max(shutil.get_terminal_size().columns, _NARROWEST) if (stream or sys.stdout).isatty() else None


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
    """Print what failed and why on standard error, secrets masked, then what to do."""
    from relay.core.secrets import mask_secrets

    width = columns(sys.stderr)
    text = wrapped(f"error: {mask_secrets(message)}", width, "  ")
    say(painted("error", "error:", sys.stderr) + text.removeprefix("error:"), err=True)
    for line in advice:
        say(wrapped(f"-> {line}", width, "   "), err=True)


def painted(word: str, shown: str, stream: TextIO | None = None) -> str:
    """``shown`` in the colour of a status or level, on a terminal without NO_COLOR; any other word stays as it is."""
    from relay.settings.screen import no_color

    color = _COLORS.get(word.lower())
    return f"{color}{shown}{_PLAIN}" if color and (stream or sys.stdout).isatty() and not no_color() else shown


def span(seconds: float) -> str:
    """A time that has passed, in its largest unit: ``45s``, ``2m``, ``3h``, ``12d``."""
    return next((f"{int(seconds // size)}{unit}" for size, unit in _UNITS if seconds >= size), "0s")


def ago(moment: object) -> str:
    """How long ago a time was, or in how long it will be, by this machine's clock; empty for what is no time."""
    if not isinstance(moment, datetime):
        return ""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def with_ago(moment: object) -> str:
    """`` (2h ago)`` behind a time, on a terminal; else empty."""
    return f" ({text})" if sys.stdout.isatty() and (text := ago(moment)) else ""
