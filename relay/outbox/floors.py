"""The floors of keys: from where on a claim in order per key looks for the first unfinished event of a key.

Delivered events leave dead entries in the index by which a claim finds the first unfinished event of a key, and while a
transaction elsewhere holds the horizon no vacuum removes them. The floor of a key is a place in its order below which
every event is finished, and no other can appear but one that has come back. It is memory of one relay; without it, a
claim looks from the first entry on and finds the same.

**Why nothing is missed below a floor.** A claim that took the event x of a key saw nothing unfinished below it. An
event that is unfinished stays so, leased, released, retried, reaped, paused or locked, until it is delivered or dead.
So one can appear below x in three ways only:

- A transaction commits that had not when x was seen. Its event's number was drawn before that of x, so it was in
  progress then. Therefore x becomes the floor only at a later claim of the key, whose snapshot has no transaction in
  progress that was so when x was seen, and which, looking from the floor before on, saw nothing below x.
- A finished event is replayed. It is then available later than it was created, and claims look for such events by an
  index that has no others, in the same snapshot and with no floor.
- A failover undoes what was committed. Over another connection no floor is known, nor after the server's count of
  transactions has gone back.

A transaction draws a number before it has an id, in the same INSERT, and triggers of the application may run between:
so what a claim saw is not used for ``_DRAWN`` seconds. While a transaction that writes stays open, the floors stay,
too, and claims get slower. What is changed by hand has no order.

Used by ``OrderedClaim`` while a walk from the oldest entry on is dear; all calls in the event loop's thread.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple
from weakref import ref

MOST_KEYS: Final = 50_000
"""Keys remembered, those that were claimed last; each takes about 300 bytes."""
_DRAWN: Final = 0.2  # seconds


class _Known(NamedTuple):
    floor: int | None
    seen: int
    """The first unfinished event of the last claim that says something new; the next floor."""
    unseen_from: int
    """The first transaction that this claim's snapshot did not see."""
    at: float


class KeyFloors:
    """The floors that one relay knows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._connection: Callable[[], object] = lambda: None
        self._unseen_from = 0
        self.index_is_there = True
        """Whether the table had the index for what has come back, when it was last asked for."""

    def usable_over(self, connection: object) -> bool:
        """Whether floors may be used over this connection; over another one than before none is known."""
        if self._connection() is not connection:
            self._connection = ref(connection)
            self._known.clear()
            self._unseen_from = 0
            self.index_is_there = True
        return self.index_is_there

    def of(self, keys: Iterable[int]) -> str:
        """The floors of these keys, by their hashes: a JSON object, with null where none is known.

        The claim takes no other keys: of one that came between the two statements it would read every dead entry.
        """
        known = ((key, self._known.get(key)) for key in keys)
        return json.dumps({str(key): None if one is None else one.floor for key, one in known})

    def learn(self, claimed: Iterable[Any], in_progress_from: int, unseen_from: int) -> None:
        """A claim took these events, as hash and place, those of a key in their order; the rest is its snapshot."""
        if unseen_from < self._unseen_from:  # not the server that it was
            self._known.clear()
        self._unseen_from = unseen_from
        now = self._clock()
        firsts: dict[int, int] = {}
        for key, place in claimed:
            firsts.setdefault(key, place)
        for key, first in firsts.items():
            self._known[key] = _after(self._known.pop(key, None), first, in_progress_from, unseen_from, now)
        while len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)


def _after(known: _Known | None, first: int, in_progress_from: int, unseen_from: int, now: float) -> _Known:
    """What is known of a key after a claim whose first unfinished event was ``first``."""
    if known is None or (known.floor is not None and first < known.floor):
        return _Known(None, first, unseen_from, now)
    if first < known.seen:  # it committed late, or came back
        return _Known(known.floor, first, unseen_from, now)
    if in_progress_from >= known.unseen_from and now - known.at >= _DRAWN:
        return _Known(known.seen, first, unseen_from, now)
    return known
