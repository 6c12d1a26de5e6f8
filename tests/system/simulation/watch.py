"""Watches that a standstill is reported: where nothing moves although it could be delivered, /readyz says why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from relay.core.event import EventId
from tests.system.simulation.ledger import Ledger, Violation
from tests.system.simulation.plan import Plan

_SLACK = 10.0


def patience(plan: Plan) -> float:
    """Seconds without a change of any row after which a relay must have reported: what the settings let it wait."""
    deadline = max(one.deadline for one in plan.relays)
    return _SLACK + plan.publish_timeout + 2 * deadline + 1.25 * plan.lease + 2 * plan.retry.max_delay


class Watch:
    """Holds the relays of one history to it."""

    def __init__(self, plan: Plan, ledger: Ledger, queue: float) -> None:
        self._ledger = ledger
        self._patience = patience(plan) + queue
        self._ready_since: dict[str, float] = {}

    def look(self, now: float, ready: Mapping[str, bool], waiting: Iterable[EventId]) -> None:
        """Look at what each running relay reports, and at the events that wait though nothing of their own stops them.

        A relay that holds an event answers for it; for one that no relay holds each of them does.
        """
        self._ready_since = {name: self._ready_since.get(name, now) for name, is_ready in ready.items() if is_ready}
        ledger, long_ago = self._ledger, now - self._patience
        silent = {name for name, since in self._ready_since.items() if since <= long_ago}
        if not silent or ledger.moved_at > long_ago:
            return
        for one in waiting:
            holder = ledger.holder.get(one)
            culprits = silent if holder is None else silent & {holder.relay}
            if culprits and ledger.inserted[one] <= long_ago:
                seconds = now - ledger.moved_at
                raise Violation(f"no row has changed for {seconds:.1f} s, {one} waits, and {min(culprits)} is ready")
