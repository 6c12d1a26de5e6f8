"""The outcome of publishing one event: the five results that a publisher may report.

A publisher resolves every event it was offered with exactly one of these. ``TimedOut`` is not a verdict: a
timeout alone decides nothing (CONTRACT section 4), so the engine holds it while it probes the broker and then
turns it into ``Transient`` (the broker answers) or ``Unreachable`` (it does not).
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


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer in time; undecided until the broker was probed."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The broker does not answer at all; not the event's fault, no attempt is used."""

    reason: str


Outcome = Acknowledged | Permanent | Transient | TimedOut | Unreachable

Resolution = tuple[OutboxEvent, Outcome]

OutcomeSink = Callable[[Sequence[Resolution]], None]
"""Takes outcomes as they become known, in the event loop's thread, in groups as large as they come."""

ACKNOWLEDGED = Acknowledged()
"""The acknowledgement without a receipt, shared because nearly every event ends with it."""
