"""Why events fail: dead and retrying events by cause. Pure: it folds groups that were read before.

A cause is a code and the error's text with its variable parts folded: numbers, ids and what stands in quotes. Names of
hosts and addresses stay, so that each destination that answers with its name has its own. The same cause is one over
all event types, and over events that are dead and events that are tried again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from relay.core.outside import shown
from relay.postgres.codec import Moment

_VARIABLE: Final = re.compile(
    r"(?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]))"
    r"|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
    r"|\b(?:0x[0-9a-fA-F]+|(?=[a-fA-F]*\d)[0-9a-fA-F]{12,})\b"
    r"|'[^']*'|\"[^\"]*\""
    r"|(?<![\w.:#-])\d+(?:[.,:]\d+)*(?![\w])"
)
FOLDED: Final = "#"
"""What stands for a variable part."""
_LONGEST: Final = 300  # characters of an error


class ErrorGroup(NamedTuple):
    """Events of one type with one error; the columns of ``failing`` in ``sql/outbox/causes.sql``."""

    event_type: str
    error: str
    """The begin of ``last_error``; empty for none."""
    dead: int
    retrying: int
    keys: list[int] | None
    """Hashes of their keys; None where none has one."""
    first: Moment
    last: Moment
    sample: str
    """The id of one of them."""


@dataclass(slots=True)
class Cause:
    """Dead and retrying events that one cause holds."""

    code: str
    """What ``last_error`` says before its first colon."""
    error: str
    """The rest, with its variable parts folded."""
    message: str
    """The error of the event that failed last."""
    sample: str
    """The id of that event."""
    first: Moment
    last: Moment
    dead: int = 0
    retrying: int = 0
    types: dict[str, int] = field(default_factory=dict)
    """How many events of each type, the largest number first."""
    keys: set[int] = field(default_factory=set)

    @property
    def step(self) -> str:
        """What to do."""
        if not self.dead:
            return f"Relays repeat them. relay-cli show {self.sample}"
        return f"Remove the cause, then: relay-cli replay --error-code {shlex.quote(self.code)}"

    def answer(self) -> dict[str, object]:
        """As JSON: what ``relay-cli causes --json`` and the API return."""
        return {
            "code": self.code,
            "error": self.error,
            "message": self.message,
            "dead": self.dead,
            "retrying": self.retrying,
            "types": self.types,
            "keys": len(self.keys),
            "first": self.first,
            "last": self.last,
            "sample": self.sample,
            "step": self.step,
        }


def code_of(error: str) -> tuple[str, str]:
    """The code of an error, and the rest of it."""
    code, _, rest = error.partition(": ")
    return code[:100], rest


def folded(text: str) -> str:
    """The text with its variable parts folded: texts that differ in these alone become one."""
    return _VARIABLE.sub(lambda match: match["address"] or FOLDED, text)


def causes(groups: Iterable[ErrorGroup]) -> list[Cause]:
    """The causes, the one with the most events first."""
    found: dict[tuple[str, str], Cause] = {}
    for group in groups:
        code, rest = code_of(group.error)
        key = (code, folded(rest))
        cause = found.get(key)
        if cause is None:
            cause = found[key] = Cause(code, key[1], group.error, group.sample, group.first, group.last)
        elif _later(group.last, cause.last):
            cause.last, cause.message, cause.sample = group.last, group.error, group.sample
        if _later(cause.first, group.first):
            cause.first = group.first
        cause.dead += group.dead
        cause.retrying += group.retrying
        cause.types[group.event_type] = cause.types.get(group.event_type, 0) + group.dead + group.retrying
        cause.keys.update(group.keys or ())
    for cause in found.values():
        cause.error, cause.message = shown(cause.error, _LONGEST), shown(cause.message, _LONGEST)
        cause.types = dict(sorted(cause.types.items(), key=lambda one: (-one[1], one[0])))
    return sorted(found.values(), key=lambda cause: (-cause.dead - cause.retrying, cause.code, cause.error))


def _later(one: Moment, other: Moment) -> bool:
    """Whether one is after the other; a time that is infinite is not compared."""
    return not isinstance(one, str) and not isinstance(other, str) and one > other
