"""What an examination found: one fact, how bad it is, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """The relay works, but not as well or as surely as it could."""
    ERROR = "error"
    """Events are not delivered, or not all of them."""


class Finding(NamedTuple):
    """One fact. ``advice`` says what to do; it is empty when there is nothing to do."""

    level: Level
    subject: str
    """What was looked at, in one word: ``table``, ``indexes``, ``clock``, ``broker``, …"""
    message: str
    advice: str = ""
