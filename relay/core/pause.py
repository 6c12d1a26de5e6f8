"""A pause: which events an operator holds back, until when, who did it and why.

Written by ``relay.outbox.admin.pause``, obeyed by every relay of the table that has the extension ``pause``.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from relay.core.durations import time_text
from relay.core.errors import ConfigError
from relay.core.patterns import exactly

LONGEST_NAME: Final = 1000
"""Bytes of an event type or prefix that a pause may name: the entry of an index has room for no more."""


class PauseScope(StrEnum):
    """What a pause is about."""

    ALL = "all"
    """The whole outbox."""
    TYPE = "type"
    """One event type, exactly."""
    PREFIX = "prefix"
    """Every event type that begins with a text."""


class PauseTarget(NamedTuple):
    """A scope, and the event type or prefix that it names."""

    scope: PauseScope
    name: str = ""
    """Empty for the whole outbox."""

    def __str__(self) -> str:
        match self.scope:
            case PauseScope.TYPE:
                return f"event type {self.name}"
            case PauseScope.PREFIX:
                return f"every event type that begins with {self.name}"
            case _:
                return "the whole outbox"

    @property
    def pattern(self) -> str:
        """What LIKE of SQL matches in the paused event types, and in no other."""
        escaped = exactly(self.name)
        return escaped if self.scope is PauseScope.TYPE else f"{escaped}%"

    def holds(self, event_type: str) -> bool:
        """Whether events of this type are paused."""
        return event_type == self.name if self.scope is PauseScope.TYPE else event_type.startswith(self.name)

    def check(self) -> None:
        """Raise ConfigError for a name that no event type can have or begin with."""
        if self.scope is PauseScope.ALL and self.name:
            raise ConfigError("a pause of the whole outbox names no event type")
        if self.scope is not PauseScope.ALL and not self.name:
            raise ConfigError(f"the {self.scope} of a pause is empty; name an event type, or pause the whole outbox")
        if "\x00" in self.name or len(self.name.encode(errors="replace")) > LONGEST_NAME:
            raise ConfigError(f"the {self.scope} of a pause has at most {LONGEST_NAME} bytes, and no NUL")


EVERYTHING: Final = PauseTarget(PauseScope.ALL)


class Pause(NamedTuple):
    """One pause in force."""

    target: PauseTarget
    until: datetime | None
    """When it ends without a command; None lasts until ``resume``."""
    paused_by: str
    reason: str
    since: datetime
    """When it was first set; a change of its end, reason or author leaves it."""

    def __str__(self) -> str:
        end = f" until {time_text(self.until)}" if self.until is not None else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.target} is paused by {self.paused_by} since {time_text(self.since)}{end}{reason}"
