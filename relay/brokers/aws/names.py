"""From an event type to the name of its queue or topic (docs/reference/messages.md#sqs-and-sns).

A name has letters, digits, ``-`` and ``_``; that of a FIFO queue or topic also ends in ``.fifo``. Of an event type each
``.``, ``/`` and ``:`` is replaced, but for the dot of a ``.fifo`` at its end. Other characters are not: two event types
that differ in them alone would share a queue unseen.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from relay.brokers.aws.options import AwsOptions, Kind
from relay.core.outcome import Permanent
from relay.core.remembered import LONGEST_REMEMBERED

FIFO: Final = ".fifo"
LONGEST: Final[dict[Kind, int]] = {"sqs": 80, "sns": 256}
"""Characters of a name, the ending of FIFO included."""

_REPLACED: Final = str.maketrans({".": "\0", "/": "\0", ":": "\0"})
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def name_of(event_type: str, kind: Kind, replacement: str) -> str | Permanent:
    """The name, or the outcome of an event whose type can be none."""
    known = _name_of if len(event_type) <= LONGEST_REMEMBERED else _name_of.__wrapped__
    return known(event_type, kind, replacement)


def destination_name(event_type: str, options: AwsOptions) -> str:
    """The name; empty for an event whose type can be none."""
    name = name_of(event_type, options.kind, options.name_replacement)
    return "" if isinstance(name, Permanent) else name


@lru_cache(maxsize=4096)
def _name_of(event_type: str, kind: Kind, replacement: str) -> str | Permanent:
    stem = event_type.removesuffix(FIFO)
    name = stem.translate(_REPLACED).replace("\0", replacement)
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, - and _, besides . / and :, which are replaced"
        return Permanent("INVALID_NAME", f"{event_type!r} cannot name a queue or topic: it may have {allowed}")
    name += event_type[len(stem) :]
    if len(name) > LONGEST[kind]:
        return Permanent("INVALID_NAME", f"{name!r} has {len(name)} characters; the most are {LONGEST[kind]}")
    return name
