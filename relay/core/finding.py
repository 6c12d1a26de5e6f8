"""One result of an examination: a fact, its severity, and advice."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """The relay works, but less well or less safely than it could."""
    ERROR = "error"
    """Events are not delivered, or not all of them."""


class Finding(NamedTuple):
    """One fact. ``advice`` says what to do; it is empty if no action is needed."""

    level: Level
    subject: str
    """The examined part, in one word: ``table``, ``indexes``, ``clock``, ``broker``, …"""
    message: str
    advice: str = ""
