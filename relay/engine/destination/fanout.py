"""Fan-out: one event that goes to several destinations, and what their outcomes make together.

The event is offered to each destination that has not acknowledged it yet. Once all of them have answered, the engine
gets one outcome, and the event with the names of those that have acknowledged it (``OutboxEvent.acknowledged_by``). The
engine writes the names with the verdict where the table has the extension fan-out, and offers the event again with
them: so a destination that has acknowledged an event does not get it again. It may after a crash, an expired lease, a
database that lost the names, and without the extension after each failure: at least once to each holds in any case.

    every destination acknowledged ──▶ Acknowledged
    a connection was cut           ──▶ ConnectionCut: the engine looks for the event that it was cut on
    one refused it, or failed      ──▶ Transient; Permanent once only refusals for good are left
    none answers                   ──▶ Unreachable
    the others are away            ──▶ Away
    any other mixture              ──▶ Withheld: nothing is known that the event, or all brokers, could be blamed for

Nothing terminal comes from one destination while another one may still take the event: so a refusal for good beside a
failure or an absence counts as a failed attempt. A failed attempt counts whatever the others say, so that an event
which one destination refuses waits its own backoff and not for another destination that is away. An event whose
attempts are used up is dead though a destination has never had it; its replay goes to those that lack it.

Order per key holds for each destination: each is offered the events in their order, and the next event of a key is
claimed once all destinations have the one before.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.core.event import OutboxEvent
from relay.core.outcome import (
    Acknowledged,
    Away,
    ConnectionCut,
    Outcome,
    Permanent,
    Receipt,
    Resolution,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)

Failure = tuple[str, Outcome]
"""A destination's name, and any outcome but Acknowledged."""


def acknowledged_names(event: OutboxEvent) -> list[str]:
    """The destinations that have acknowledged it."""
    return event.acknowledged_by.split(",") if event.acknowledged_by else []


class FanOut:
    """One offer of an event to several destinations, each of which resolves it exactly once."""

    __slots__ = ("_acknowledged", "_duplicate", "_event", "_failures", "_open", "_receipt", "_restamped")

    def __init__(self, event: OutboxEvent, destinations: int) -> None:
        """``destinations``: how many it is offered to."""
        self._event = event
        self._open = destinations
        self._acknowledged = acknowledged_names(event)
        self._failures: list[Failure] = []
        self._receipt: Receipt = {}
        self._duplicate = self._restamped = False

    def resolve(self, destination: str, name: str, outcome: Outcome) -> Resolution | None:
        """Take the outcome of a destination, where the event has that name; returns what is known after the last."""
        self._open -= 1
        if isinstance(outcome, Acknowledged):
            self._acknowledged.append(destination)
            self._duplicate |= outcome.duplicate
            self._restamped |= outcome.restamped
            if outcome.receipt is not None:
                receipt = {**outcome.receipt, "destination": name}
                self._receipt |= {f"{destination}.{key}": value for key, value in receipt.items()}
        else:
            self._failures.append((destination, outcome))
        if self._open:
            return None
        if not self._failures:
            return self._event, Acknowledged(self._receipt or None, self._duplicate, self._restamped)
        answered = len(self._acknowledged) > len(acknowledged_names(self._event))
        event = self._event._replace(acknowledged_by=",".join(self._acknowledged) or None)
        return event, combine(self._failures, self._acknowledged, answered=answered)


def combine(failures: Sequence[Failure], acknowledged: Sequence[str] = (), *, answered: bool = False) -> Outcome:
    """The outcome of an event that not all destinations have acknowledged; those named in ``acknowledged`` have.

    ``answered``: one of these has in this attempt.
    """
    outcomes = [outcome for _, outcome in failures]
    reason = "; ".join(_reason(destination, outcome) for destination, outcome in failures)
    if acknowledged:
        reason += f"; acknowledged by {', '.join(acknowledged)}"
    if any(isinstance(outcome, ConnectionCut) for outcome in outcomes):
        return ConnectionCut(reason)
    failed = [outcome for outcome in outcomes if isinstance(outcome, Transient | TimedOut)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, Permanent)]
    if len(refused) == len(outcomes):
        return Permanent(refused[0].code, reason)
    if failed or refused:
        waits = [outcome.not_before for outcome in failed if isinstance(outcome, Transient) and outcome.not_before]
        return Transient((*failed, *refused)[0].code, reason, max(waits, default=None))
    if not answered and all(isinstance(outcome, Unreachable) for outcome in outcomes):
        return Unreachable(reason)
    away = [outcome for outcome in outcomes if isinstance(outcome, Away)]
    if len(away) == len(outcomes):
        return Away(reason, away[0].reported_as)
    return Withheld(reason)


def _reason(destination: str, outcome: Outcome) -> str:
    """Why, with the name of the destination; one that does not answer has its name in it."""
    match outcome:
        case Away(reason) | Unreachable(reason):
            return reason
        case Permanent(code, reason) | Transient(code, reason) | TimedOut(code, reason):
            return f"destination {destination}: {reason or code}"
        case ConnectionCut(reason) | Withheld(reason):
            return f"destination {destination}: {reason}"
        case _:
            return ""
