"""Durations (``1m30s``, ``7d``), times and sizes (``64MiB``) as text, parsed to seconds, datetimes and bytes."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

_UNIT_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)")
_EXAMPLES = "500ms, 90s, 1m30s, 24h or 7d"
_SIZE = re.compile(r"(\d+)\s*([kKMG]i?)?[bB]?")
_SIZE_FACTOR = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def parse_duration(text: str) -> float:
    """Seconds of a duration such as ``500ms``, ``1m30s``, ``24h`` or ``7d``; a bare ``0`` is allowed.

    These are Go's durations, and ``d`` for 24 hours. Raises ValueError, saying what a duration looks like, for anything
    else, a negative one included.
    """
    stripped = text.strip().removeprefix("+")
    if stripped == "0":
        return 0.0
    seconds, at = 0.0, 0
    for part in _PART.finditer(stripped):
        if part.start() != at:
            break
        seconds += float(part.group(1)) * _UNIT_SECONDS[part.group(2)]
        at = part.end()
    if at == 0 or at != len(stripped):
        missing = f"; it has no unit: {stripped}s is seconds" if stripped.isdecimal() else ""
        raise ValueError(f"{text!r} is not a duration{missing}; write for example {_EXAMPLES}")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest Go-style text of a duration that :func:`parse_duration` reads back."""
    if seconds and seconds < 1:
        return f"{seconds * 1000:g}ms"
    text = ""
    rest = seconds
    for unit, size in (("h", 3600), ("m", 60)):
        count, rest = divmod(rest, size)
        text += f"{int(count)}{unit}" if count else ""
    return text + f"{rest:g}s" if rest or not text else text


def span(seconds: float) -> str:
    """A duration for people, in its two largest units: ``3 min 20 s``."""
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    whole = max(int(seconds), 1) if seconds > 0 else 0
    for (unit, size), (smaller, part) in pairwise(units):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def in_words(seconds: float) -> str:
    """A limit or a wait for people: exact in seconds up to ten minutes, ``0.5 s``; then as ``span``."""
    return f"{seconds:g} s" if seconds < 600 else span(seconds)


def time_text(moment: datetime | str, timespec: str = "seconds") -> str:
    """A time for people and programs, always so: RFC 3339, in UTC, ``2026-03-10T12:00:00Z``; text as it is.

    ``timespec`` is ``microseconds`` where the time may be compared or sent back; what follows is cut off, not rounded.
    """
    if isinstance(moment, str):  # ``infinity``, as PostgreSQL writes it
        return moment
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """An ISO 8601 time with its zone, in UTC; a date alone is its UTC midnight.

    Raises ValueError, saying what a time looks like, for anything else, one without a zone included.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write for example 2026-03-10T12:00:00Z") from None
    if len(text) <= len("2026-03-10"):
        return time.replace(tzinfo=UTC)
    if time.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone; write for example {text}Z")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is in no year from 1 to 9999 of UTC") from None


def parse_bound(text: str) -> datetime | timedelta:
    """A time, as ``parse_time`` takes it, or an age before now, as ``parse_duration`` reads it. Raises ValueError."""
    with suppress(ValueError, OverflowError):
        return timedelta(seconds=parse_duration(text))
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither an age like 2h nor a time like 2026-01-31T12:00:00Z") from None
    return parse_time(text)


def parse_size(text: str) -> int:
    """Bytes of a size such as ``10485760``, ``64MiB`` or ``1GB``.

    Raises ValueError, saying what a size looks like, for anything else.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size; write bytes, or for example 512KiB, 64MiB or 1GiB")
    return int(match.group(1)) * _SIZE_FACTOR[(match.group(2) or "").upper()]
