"""One result of an examination: a fact, its severity, and advice."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from relay.core.pause import PauseTarget


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
    event: str = ""
    """The id of the event that the message names."""
    name: str = ""
    """Of the consumer or subscription that the message names."""
    pause: PauseTarget | None = None
    """What is paused, where it is about a pause."""

    def answer(self) -> dict[str, str]:
        """As JSON."""
        return {"level": self.level, "subject": self.subject, "message": self.message, "advice": self.advice}
