"""Room: how much the next claim may take, and which destinations it leaves out, so that the others find some.

The last quarter of the places, and of the bytes, is for destinations that answer: else one that does not would take all
of them. Half of it may go to those with few events that wait: an event for several of which one is silent, for example.

| room for all, without that quarter | what is in flight | the next claim |
|---|---|---|
| a batch, or a quarter of it | whatever it is | takes that room, and leaves nothing out |
| less | has waited half a second (``LATE``) | takes from the last quarter, too, and leaves it out |
| less | nothing that is late | waits for more, a poll interval at most: answers may trickle in |
| none | has waited an eighth of a second (``SOON``) | likewise, for a twentieth of the time: it looks past what waits |
| none | is new | waits for an answer |

What waits for the rate of a destination takes its places only when it is handed over: where more than the last quarter
is left, or, while the destination is not late, more than half of that.

A destination that answers before it is late may have any number of events that wait, so a claim that looks past them
may take long: its own events are claimed as soon as there is room for them, most of the time. Used by ``Claimer``;
never waits, and never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from relay.core.destination import Waiting, WatchedDestination
from relay.core.places import Flow
from relay.engine.batch import LATE
from relay.engine.engine_options import EngineOptions
from relay.engine.flows import bounded
from relay.engine.inflight import InFlight

SOON: Final = LATE / 4
"""Seconds without an answer after which claims look past the events of its kind, where there is no room for all."""
_RESERVE = 4  # a quarter of the places, and of the bytes, is for destinations that answer
_SMALLEST_SHARE = 4
"""Room for a quarter of the places, a whole batch at most, is worth a claim: small ones cost as much."""
_LOOK_PAST_SHARE: Final = 0.05  # of the time


class Room(NamedTuple):
    """For one claim."""

    places: int
    size: int
    """Bytes."""
    without: Sequence[Flow]
    """What the claim leaves out."""
    looks_past: bool = False
    """Nothing of that is late: ``ClaimRoom.looked_past`` hears what the claim has brought."""


class ClaimRoom:
    """The room of one relay's claims."""

    def __init__(
        self,
        options: EngineOptions,
        inflight: InFlight,
        destinations: Sequence[WatchedDestination],
        clock: Callable[[], float],
    ) -> None:
        self._options = options
        self._inflight = inflight
        self._destinations = destinations
        self._clock = clock
        self._reserve = options.max_in_flight // _RESERVE
        self._bytes_reserve = options.batch_bytes // _RESERVE
        self._enough = min(options.batch_size, (options.max_in_flight - self._reserve) // _SMALLEST_SHARE)
        """Places that are worth a claim."""
        self._crowded_since: float | None = None
        """Since when there is room, but too little to be worth a claim."""
        self._look_past_at = float("-inf")
        """When the next claim may look past what waits, at the earliest."""
        self.look_again = min(options.poll_interval, SOON)
        """Seconds after which there may be room though nothing was settled."""
        for one in destinations:
            one.share_room(self.for_rate)

    def waiting(self) -> list[Waiting]:
        """What waits for the rates of destinations."""
        return [waiting for one in self._destinations if (waiting := one.waiting) is not None]

    def find(self) -> Room | None:
        """The room for a claim that is sent now; None where none is worth it."""
        waiting = self.waiting()
        places, size = self._inflight.room(waiting)
        now = self._clock()
        room: Room | None = Room(places - self._reserve, size - self._bytes_reserve, [])
        is_for_all = places > self._reserve and size >= 2 * self._bytes_reserve
        if is_for_all and not self._is_crowded(places - self._reserve, now):
            self._crowded_since = None
        else:
            room = self._of_the_reserve(places, size, now, looks_past=not is_for_all and now >= self._look_past_at)
        if room is not None and waiting:
            full = (flow for one in waiting if one.full_for for flow in one.flows)
            room = room._replace(without=bounded({*room.without, *full}))
        return room

    def for_rate(self, late: bool) -> int:
        """How many events that waited for their rate may be handed over: claimed ahead, they take places only now.

        Half of the last quarter is kept from a destination with a rate; from one that is ``late`` all of it.
        """
        places, size = self._inflight.room(self.waiting())
        part = 1 if late else 2
        return max(places - self._reserve // part, 0) if size > self._bytes_reserve // part else 0

    def looked_past(self, seconds: float, events: int) -> None:
        """A claim that looks past what waits took that long and brought ``events``: the next one may be soon or not."""
        self._look_past_at = float("-inf") if events else self._clock() + seconds * (1 / _LOOK_PAST_SHARE - 1)

    def _is_crowded(self, places: int, now: float) -> bool:
        """Whether there is too little room for a claim. It is taken once a poll interval: the rest may be held long."""
        if places >= self._enough:
            return False
        if self._crowded_since is None:
            self._crowded_since = now
        return now - self._crowded_since < self._options.poll_interval

    def _of_the_reserve(self, places: int, size: int, now: float, *, looks_past: bool) -> Room | None:
        """Room for those that do not wait; None where nothing waits, or these have taken it."""
        half, half_bytes = self._reserve // 2, self._bytes_reserve // 2
        few, few_bytes = half if places > half else 0, half_bytes if size > half_bytes else 0
        if places <= few or size - few_bytes < self._bytes_reserve // 4 or not self._reserve:
            return None
        for after in (LATE, SOON) if looks_past else (LATE,):
            late = {flow for one in self._destinations for flow in one.late_flows(after)}
            if slow := self._inflight.slow_flows(now, after, late, few, few_bytes):
                return Room(places - few, size - few_bytes, slow, looks_past=after < LATE)
        return None
