"""Time-ordered ids: UUID version 7 (RFC 9562), which Python's library does not make before 3.14.

Ids begin with the time, so that new rows land at the right edge of the primary key's index instead of all over it.
Events get theirs here, and so do the attempts of the delivery log.
"""

from __future__ import annotations

import os
import time
from uuid import UUID

_NS_PER_MS = 1_000_000
_LOW_62 = 2**62 - 1

LONGEST_ID = 200
"""Characters of an event's id at a consumer, and of the consumer's name: both stand in one index entry."""


def uuid7(milliseconds: int | None = None) -> UUID:
    """A new id of now, or of another time since 1970: milliseconds, their fraction in 4096ths, 62 random bits.

    That is method 3 of RFC 9562; for a given time the fraction is random, too. Safe in threads and after a fork. Ids
    of now, from one process, ascend as long as its clock does.
    """
    chance = int.from_bytes(os.urandom(10), "big")
    if milliseconds is None:
        milliseconds, nanoseconds = divmod(time.time_ns(), _NS_PER_MS)
        fraction = nanoseconds * 4096 // _NS_PER_MS
    else:
        fraction = chance >> 68
    return UUID(int=milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | chance & _LOW_62)


def canonical_id(text: str) -> str:
    """One form for one id: a UUID may come in upper case, without hyphens or in braces. Other texts stay."""
    try:
        return str(UUID(text))
    except ValueError:
        return text


def uuid7_milliseconds(id_: UUID) -> int | None:
    """The time that a UUIDv7 holds, in milliseconds since 1970; None for an id of another kind."""
    return id_.int >> 80 if id_.version == 7 else None
