"""Why events fail: dead and retrying events by cause. Pure: it folds groups that were read before.

A cause is a code and the error's text with its variable parts folded: numbers, ids and what stands in quotes. Names of
hosts and addresses stay, so that each destination that answers with its name has its own. The same cause is one over
all event types, and over events that are dead and events that are tried again.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from relay.core.durations import time_text
from relay.core.outside import shown
from relay.postgres.codec import Moment

_VARIABLE: Final = re.compile(  # one class of characters to begin with, which the engine of re looks for quickly
    r"[0-9a-fA-F'\"](?:"
    r"(?P<address>(?<=\d)(?<![\w.].)\d{0,2}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]))"
    r"|(?<!\w.)(?<=[0-9a-fA-F])(?:[0-9a-fA-F]{7}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?<=0)x[0-9a-fA-F]+|(?:(?<=\d)|(?=[a-fA-F]*\d))[0-9a-fA-F]{11,})\b"
    r"|(?<=')[^']*'|(?<=\")[^\"]*\""
    r"|(?<=\d)(?<![\w.:#-].)\d*(?:[.,:]\d+)*(?!\w))"
)
_MARK: Final = re.compile(r"(.{0,100}):([0-9a-f]{10})", re.DOTALL)
FOLDED: Final = "#"
"""What stands for a variable part."""
LONGEST: Final = 300
"""Characters of an error: what follows them tells no causes apart."""


class ErrorGroup(NamedTuple):
    """Events of one type with one error; the columns of ``failing`` in ``sql/outbox/causes.sql``."""

    event_type: str
    error: str
    """The begin of ``last_error``; empty for none."""
    dead: int
    retrying: int
    keys: list[int] | None
    """Hashes of their keys, one for each event that has a key; None where none has one."""
    first: Moment
    last: Moment
    sample: str
    """The id of one of them."""
    minutes: list[int] | None = None
    """The minute in which each of them failed last, since 1970, of those within the last hour; None for none."""


class CauseName(NamedTuple):
    """What tells one cause from every other one."""

    code: str
    """What ``last_error`` says before its first colon."""
    error: str
    """The rest, with its variable parts folded."""

    @classmethod
    def of(cls, last_error: str | None) -> CauseName:
        """The cause of an event with this error. Of one that is longer than ``LONGEST`` the last word is left out."""
        text = (last_error or "")[:LONGEST]
        code, rest = code_of(text)
        if len(text) == LONGEST:
            rest = rest.rpartition(" ")[0] or rest
        return cls(code, folded(rest))

    @property
    def mark(self) -> CauseMark:
        """What names it in commands and requests."""
        digest = hashlib.blake2s(self.error.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
        return CauseMark(self.code, digest)


class CauseMark(NamedTuple):
    """A cause as an operator names it: its code, and a digest of its folded error, ``HTTP_503:1f0a9c22b7``."""

    code: str
    digest: str

    def __str__(self) -> str:
        return f"{self.code}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> CauseMark:
        """Raises ValueError for what no cause is called."""
        match = _MARK.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} names no cause; relay-cli causes lists their names, such as HTTP_503:1f0a9c22b7"
            )
        return cls(match[1], match[2])

    def holds(self, last_error: str | None) -> bool:
        """Whether an event with this error has this cause."""
        return CauseName.of(last_error).mark == self


@dataclass
class Cause:
    """Dead and retrying events that one cause holds."""

    name: CauseName
    last_error: str
    """Of the event that failed last, as it is stored."""
    sample: str
    """The id of that event."""
    first: Moment
    last: Moment
    dead: int = 0
    retrying: int = 0
    types: dict[str, int] = field(default_factory=dict)
    """How many events of each type, the largest number first."""
    keys: set[int] = field(default_factory=set)
    minutes: Counter[int] = field(default_factory=Counter)
    """How many of the events failed last in which minute of the last hour; minutes since 1970."""

    @property
    def code(self) -> str:
        """What ``last_error`` says before its first colon."""
        return self.name.code

    @functools.cached_property
    def message(self) -> str:
        """The error of the event that failed last, without secrets: masking costs most, and few causes are shown."""
        return _masked(self.last_error)

    @functools.cached_property
    def error(self) -> str:
        """The error with its variable parts folded, without the code, in characters that a terminal may show."""
        return self.name.error if self.message == self.last_error else CauseName.of(self.message).error

    @functools.cached_property
    def mark(self) -> str:
        """What names it in commands and requests."""
        return str(self.name.mark)

    @property
    def step(self) -> str:
        """What to do."""
        if not self.dead:
            return f"Relays repeat them. relay-cli show {self.sample}"
        return f"Remove the cause, then: relay-cli replay --cause {shlex.quote(self.mark)}"

    def answer(self) -> dict[str, object]:
        """As JSON: what ``relay-cli causes --json`` and the API return."""
        return {
            "cause": self.mark,
            "code": self.code,
            "error": self.error,
            "message": self.message,
            "dead": self.dead,
            "retrying": self.retrying,
            "types": self.types,
            "keys": len(self.keys),
            "first": time_text(self.first, "microseconds"),
            "last": time_text(self.last, "microseconds"),
            "sample": self.sample,
            "minutes": {_minute(minute): events for minute, events in sorted(self.minutes.items())},
            "step": self.step,
        }


def code_of(error: str) -> tuple[str, str]:
    """The code of an error, and the rest of it."""
    code, _, rest = error.partition(": ")
    return code[:100], rest


def folded(text: str) -> str:
    """The text with its variable parts folded: texts that differ in these alone become one."""
    if "'" in text or '"' in text:  # what stands in quotes has blanks; any other variable part has none
        return _folded_part.__wrapped__(text)
    return " ".join(map(_folded_part, text.split(" ")))


@functools.lru_cache(maxsize=4096)
def _folded_part(text: str) -> str:
    """As ``folded``. The words of errors repeat, and the expression costs ten times what finding one here does."""
    return _VARIABLE.sub(lambda match: FOLDED if match["address"] is None else match[0], text)


def causes(groups: Iterable[ErrorGroup]) -> list[Cause]:
    """The causes, the one with the most events first."""
    found: dict[CauseName, Cause] = {}
    names: dict[str, CauseName] = {}
    for group in groups:
        name = names.get(group.error)
        if name is None:  # the same error of several types is folded once
            name = names[group.error] = CauseName.of(group.error)
        cause = found.get(name)
        events = group.dead + group.retrying
        if cause is None:  # nothing to compare and to add up, which is most of the work where most causes are one group
            types, keys, minutes = {group.event_type: events}, set(group.keys or ()), Counter(group.minutes or ())
            times, counts = (group.first, group.last), (group.dead, group.retrying)
            found[name] = Cause(name, group.error, group.sample, *times, *counts, types, keys, minutes)
            continue
        if _later(group.last, cause.last):
            cause.last, cause.last_error, cause.sample = group.last, group.error, group.sample
        if _later(cause.first, group.first):
            cause.first = group.first
        cause.dead += group.dead
        cause.retrying += group.retrying
        cause.types[group.event_type] = cause.types.get(group.event_type, 0) + events
        cause.keys.update(group.keys or ())
        cause.minutes.update(group.minutes or ())
    for cause in found.values():
        cause.types = dict(sorted(cause.types.items(), key=lambda one: (-one[1], one[0])))
    return sorted(found.values(), key=lambda cause: (-cause.dead - cause.retrying, cause.name))


@functools.lru_cache(maxsize=4096)
def _masked(error: str) -> str:
    """Errors recur in the next reading, and the expressions of secrets are the most expensive of all here."""
    return shown(error, LONGEST)


@functools.lru_cache(maxsize=128)
def _minute(minute: int) -> str:
    """The time at which a minute since 1970 begins."""
    return time_text(datetime.fromtimestamp(minute * 60, UTC))


def _later(one: Moment, other: Moment) -> bool:
    """Whether one is after the other; a time that is infinite is not compared."""
    return not isinstance(one, str) and not isinstance(other, str) and one > other
