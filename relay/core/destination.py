"""What a destination is like: its states, and what is shown of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from relay.core.durations import time_text
from relay.core.places import Flow

TITLE: Final = "destination "
"""What the title of a destination begins with; its name follows."""


class DestinationState(IntEnum):
    """The values of ``openoutbox_destination_state``; their names in lower case are the words used everywhere else."""

    FLOWING = 1
    """It answers and takes events."""
    SLOW = 2
    """It takes events, and its answers take longer than a bound for a time."""
    BLOCKED = 3
    """It is connected and takes nothing."""
    AWAY = 4
    """It does not answer."""
    REFUSED = 5
    """It refuses the login or the TLS handshake."""


class DestinationCondition(NamedTuple):
    """What a destination is like, and since when."""

    state: str
    """``flowing``, ``slow``, ``blocked``, ``away`` or ``refused``."""
    seconds: float
    """For how long."""
    reason: str
    """Why; while it flows empty, or that it is at its rate."""

    @property
    def since(self) -> str:
        """When that began: RFC 3339, in UTC, to the second."""
        return time_text(datetime.now(UTC) - timedelta(seconds=self.seconds))

    def __str__(self) -> str:
        return f"{self.state} since {self.since}: {self.reason}"


class Waiting(NamedTuple):
    """What waits for the rate of a destination."""

    rate: float
    """Events a second."""
    events: int
    size: int
    """Bytes."""
    full_for: float
    """Seconds for which claims leave ``flows`` out; 0 where they take them."""
    flows: Collection[Flow]


class WatchedDestination(Protocol):
    """One destination with a state of its own."""

    @property
    def title(self) -> str:
        """Its name in reasons and in /readyz."""

    @property
    def state(self) -> DestinationState:
        """The value of ``openoutbox_destination_state``."""

    @property
    def condition(self) -> DestinationCondition:
        """Its state, since when, and why."""

    @property
    def parts(self) -> Mapping[str, WatchedDestination]:
        """By name, what of it can fail on its own and does not flow."""

    def late_flows(self, after: float) -> Collection[Flow]:
        """Flows of events for it while it is late with its answers, which it is ``after`` so many seconds.

        Empty where it is known by their flows alone.
        """

    @property
    def waiting(self) -> Waiting | None:
        """What waits for its rate; None where it has none."""

    def share_room(self, room: Callable[[bool], int]) -> None:
        """Hand over what waits for its rate only where ``room`` has places; its argument says if answers are late."""
