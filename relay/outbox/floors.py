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
so the transactions that must have ended are those of a snapshot ``_DRAWN`` seconds later. While a transaction that
writes stays open, the floors stay, too, and claims get slower. What is changed by hand has no order.

**The ground** is the floor of all keys at once, which a relay looks for once over each connection: without it, the
first claims of each key walk all its dead entries one by one, which is ten times as dear as all of them in the order of
the table. A number is noted that an event had; when every transaction of a snapshot ``_DRAWN`` seconds later has ended,
one statement finds the first unfinished event of each key. Below those, and in every other key below the number,
nothing is unfinished, and nothing can appear but what has come back.

Where the ground took too long, a claim looks at fewer keys without a floor after each one that failed, and at more
after each that did not: so some key gets its floor however slow the server is.

**Which keys.** A claim is sent with the floors of the keys that the one before saw in its window, and says which keys
it saw itself: those that are new are taken by the next one, at once. A statement of its own asks for the keys of the
window until the ground is known, once a second, and for a claim that is to name the row that fails.

Used by ``OrderedClaim`` while a walk from the oldest entry on is dear; all calls in the event loop's thread.
"""

from __future__ import annotations

import json
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple
from weakref import ref

MOST_KEYS: Final = 50_000
"""Keys remembered, those that were claimed last, and of the ground; each takes about 300 bytes."""
_DRAWN: Final = 0.2  # seconds
_ASK_AGAIN: Final = 1.0  # seconds between two statements that ask for the keys, and for the index


class Snapshot(NamedTuple):
    """Of a statement: which transactions it saw as ended."""

    in_progress_from: int
    """The first one that it saw in progress."""
    unseen_from: int
    """The first one that it did not see."""


class _Seen(NamedTuple):
    """A number, and the transactions that may still bring a lower one."""

    number: int
    at: float
    unseen_from: int | None = None
    """The first one that cannot have drawn a lower number; None until ``_DRAWN`` seconds have passed."""

    def is_settled(self, snapshot: Snapshot) -> bool:
        """Whether every lower number is visible in this snapshot, or never will be."""
        return self.unseen_from is not None and snapshot.in_progress_from >= self.unseen_from

    def later(self, snapshot: Snapshot, now: float) -> _Seen:
        """What is known of it with one more snapshot."""
        if self.unseen_from is not None or now - self.at < _DRAWN:
            return self
        return self._replace(unseen_from=snapshot.unseen_from)


class _Known(NamedTuple):
    floor: int | None
    seen: _Seen
    """The first unfinished event of the last claim that says something new; the next floor."""


class _Ground:
    """The floor of every key, over one connection."""

    def __init__(self) -> None:
        self._was_ready = False
        self._noted: _Seen | None = None
        self._number: int | None = None
        self._firsts: dict[int, int] = {}

    def is_ready(self, highest: int | None, snapshot: Snapshot, now: float) -> bool:
        """Whether it can be found now, true once; called with what each claim sees."""
        if self._noted is None:
            self._noted = None if highest is None else _Seen(highest, now)
            return False
        ready = not self._was_ready and self._noted.is_settled(snapshot)
        self._was_ready |= ready
        self._noted = self._noted.later(snapshot, now)
        return ready

    @property
    def is_found(self) -> bool:
        """Whether it is known."""
        return self._number is not None

    def found(self, firsts: Sequence[tuple[int, int]]) -> None:
        """The first unfinished event of each key, as hash and place, as a statement after ``is_ready`` saw them."""
        if self._noted is not None and len(firsts) <= MOST_KEYS:
            self._firsts, self._number = dict(firsts), self._noted.number

    def of(self, key: int) -> int | None:
        """The floor of this key; None while it is not known."""
        return None if self._number is None else min(self._firsts.get(key, self._number), self._number)


class KeyFloors:
    """The floors that one relay knows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._ground = _Ground()
        self._connection: Callable[[], object] = lambda: None
        self._unseen_from = 0
        self._most_unknown = MOST_KEYS
        """Most keys without a floor of one claim."""
        self._unknown = 0
        """How many the last one had."""
        self.index_is_there = True
        """Whether the table had the index for what has come back, when it was last asked for."""
        self._asked_at = float("-inf")
        self.window: frozenset[int] = frozenset()
        """The keys that the last claim saw."""
        self._given: frozenset[int] = frozenset()

    def usable_over(self, connection: object) -> bool:
        """Whether floors may be used over this connection; over another one than before none is known."""
        if self._connection() is not connection:
            self._connection = ref(connection)
            self._forget()
            self.index_is_there = True
        return self.index_is_there

    def _forget(self) -> None:
        self._asked_at = float("-inf")
        self._known.clear()
        self._ground = _Ground()
        self._unseen_from = 0

    @property
    def to_be_asked(self) -> bool:
        """Whether a statement is to ask for the keys: those that the last claim saw are not enough."""
        return self._clock() >= self._asked_at + _ASK_AGAIN

    @property
    def missed(self) -> bool:
        """Whether the last claim saw keys that it was not sent with, so that it took nothing of theirs."""
        return not self.window <= self._given

    def saw(self, keys: Iterable[int | None]) -> None:
        """A claim saw rows of these keys in its window."""
        self.window = frozenset(key for key in keys if key is not None)

    def wants_ground(self, highest: int | None, snapshot: Snapshot) -> bool:
        """Whether the ground is to be looked for, once, after a statement that saw an event of that number."""
        self._came(snapshot)
        if self._ground.is_found:
            self._asked_at = self._clock()
        return self._ground.is_ready(highest, snapshot, self._clock())

    def stand_on(self, firsts: Sequence[tuple[int, int]]) -> None:
        """Take over the ground: the first unfinished event of each key, as hash and place."""
        self._ground.found(firsts)

    def of(self, keys: Iterable[int]) -> str:
        """The floors of these keys, by their hashes: a JSON object, with null where none is known.

        The claim takes no other keys: of one that came since they were read it would read every dead entry.
        """
        self._given = frozenset(keys)
        floors = {key: self._floor(key) for key in self._given}
        unknown = [key for key, floor in floors.items() if floor is None]
        self._unknown = min(len(unknown), self._most_unknown)
        for key in random.sample(unknown, len(unknown) - self._unknown):
            del floors[key]
        return json.dumps({str(key): floor for key, floor in floors.items()})

    def failed(self) -> None:
        """The claim with these floors failed: the next one has fewer keys without one."""
        if self._unknown:
            self._most_unknown = max(self._unknown // 2, 1)

    def worked(self) -> None:
        """It did not: the next one may have more."""
        self._most_unknown = min(self._most_unknown * 2, MOST_KEYS)

    def _floor(self, key: int) -> int | None:
        known = self._known.get(key)
        floors = [floor for floor in (self._ground.of(key), known and known.floor) if floor is not None]
        return max(floors, default=None)

    def learn(self, claimed: Iterable[Any], snapshot: Snapshot) -> None:
        """A claim took these events, as hash and place, those of a key in their order; it saw this snapshot."""
        self._came(snapshot)
        now = self._clock()
        firsts: dict[int, int] = {}
        for key, place in claimed:
            firsts.setdefault(key, place)
        for key, first in firsts.items():
            floor = self._floor(key)
            self._known[key] = _after(self._known.pop(key, None), floor, first, snapshot, now)
        while len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)

    def _came(self, snapshot: Snapshot) -> None:
        if snapshot.unseen_from < self._unseen_from:  # not the server that it was
            self._forget()
        self._unseen_from = snapshot.unseen_from


def _after(known: _Known | None, floor: int | None, first: int, snapshot: Snapshot, now: float) -> _Known:
    """What is known of a key after a claim that looked from ``floor`` on whose first unfinished event was this one."""
    if known is None or (floor is not None and first < floor):
        return _Known(None, _Seen(first, now))
    if first < known.seen.number:  # it committed late, or came back
        return known._replace(seen=_Seen(first, now))
    if known.seen.is_settled(snapshot):
        return _Known(known.seen.number, _Seen(first, now))
    return known._replace(seen=known.seen.later(snapshot, now))
