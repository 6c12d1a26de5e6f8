"""The outcome of publishing one event: the eight results that a publisher may report.

A publisher resolves every event it was offered with exactly one of these. Two of them are no verdicts
(docs/reference/messages.md#errors): the engine holds the event and probes the broker first. No answer to the probe
makes both ``Unreachable``. An answer makes ``TimedOut`` a ``Transient`` failure, and an event with ``ConnectionCut`` a
suspect, which is offered again in ever smaller groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from relay.core.event import OutboxEvent

Receipt = dict[str, str | int]
"""Where the broker put a message: partition and offset, stream and sequence, or stream entry id."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker has stored the message as durably as the contract requires."""

    receipt: Receipt | None = None
    duplicate: bool = False
    """The broker says that it had the message before, and keeps this one no more."""
    restamped: bool = False
    """The message has the time of its offer, since the broker takes none with the event's."""


@dataclass(frozen=True, slots=True)
class Permanent:
    """This broker can never accept the message; the event is dead at once."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Transient:
    """May work later; uses up an attempt. Anything unknown is transient."""

    code: str
    reason: str
    not_before: float | None = None
    """Seconds that the destination asks to be left alone, where it says so; the backoff may be longer."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer in time; undecided until the broker was probed."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectionCut:
    """The connection was lost after the event was handed to it and before its answer; undecided until a probe.

    For events that may have been on the wire. One that was not sent is offered over a new connection, and is
    ``Unreachable`` when none can be made.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The broker does not answer at all; not the event's fault, no attempt is used."""

    reason: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """Given back, because another event failed: one before it in its run, or one that ended the client's connection.

    From publishers that keep runs (``Publisher.keeps_runs``), or because the relay stops (``take_back``). Uses no
    attempt, and says nothing about the broker.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Away:
    """The destination of this event does not answer, while others of this publisher do.

    Uses no attempt, and the gate stays open. The engine leaves events of this type out of claims for a time
    (``relay.engine.away``). For publishers with several servers behind them: each is up or down apart.
    """

    reason: str
    reported_as: str = ""
    """The name under which this outage is reported for /readyz besides, ``destination NAME``; empty where it is not."""


Outcome = Acknowledged | Permanent | Transient | TimedOut | ConnectionCut | Unreachable | Withheld | Away

Resolution = tuple[OutboxEvent, Outcome]

OutcomeSink = Callable[[Sequence[Resolution]], None]
"""Takes outcomes as they become known, in the event loop's thread, in groups as large as they come."""

ACKNOWLEDGED = Acknowledged()
"""The acknowledgement without a receipt, shared because nearly every event ends with it."""
