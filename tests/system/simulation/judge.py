"""The rules that only a whole history can be held to: what is delivered by when, attempts, duplicates, order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from relay.core.event import EventId, Status
from relay.engine.batch import SLOW
from relay.engine.suspects import LANES
from relay.outbox.outbox_options import KeyOrder
from tests.system.simulation import database_faults as database
from tests.system.simulation.broker import Answer
from tests.system.simulation.database_faults import ClockStep, Paused, SlowLink
from tests.system.simulation.faults import FOR_GOOD, Answered, DestinationSilent, Fault, Freeze, LateAnswers, hurts
from tests.system.simulation.ledger import Ledger, Violation
from tests.system.simulation.pauses import PausedClaim
from tests.system.simulation.plan import LARGEST, STANDSTILL, NewEvent, Plan
from tests.system.simulation.watch import Watch

BASE = 10.0
"""Seconds after its insertion within which an innocent event is delivered, whatever is wrong with others."""
_OBEYED = 2.0
"""Seconds after a pause from which on no relay claims what it holds, unless its way to the database is in trouble."""
_LEVELS = 2
"""Groups that are offered one after the other until one of up to 64 suspects is alone."""
_MORE_TRIALS = 3
"""Claims of an event whose destination is away, beside those that its holds allow."""
_SLACK = 4.0
"""Poll interval, backoff of the engine's own retries and the latency of the model, seconds."""
_READ_LATE = (
    *(database.DatabaseAway, database.DatabaseCrash, database.DatabaseSilent, database.DatabaseSlow),
    *(database.ReplyLost, database.RequestLost, database.TableLocked, ClockStep, SlowLink, Freeze),
)
"""What keeps a relay from reading the pauses in time, or a claim of it under way."""


class Judge:
    """Holds one history to the promises."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plan = plan
        self._ledger = ledger
        self._own = plan.held_up
        self._queue = self._stall() + self._travel()
        self._watch = Watch(plan, ledger, self._queue)
        self._limits: dict[EventId, float] = {}
        self._faults = sorted((one for one in plan.faults if not isinstance(one, Paused)), key=lambda one: one.at)
        self._types = {event.event_id: event.destination for one in plan.transactions for event in one.events}
        self._clock_steps = sum(abs(fault.seconds) for fault in plan.faults if isinstance(fault, ClockStep))

    def _stall(self) -> float:
        """How long innocents may wait for places that others take, by what the settings bound."""
        plan = self._plan
        events = [event for one in plan.transactions for event in one.events]
        late = max((fault.seconds for fault in plan.faults if isinstance(fault, LateAnswers)), default=0.0)
        options = [options for one in plan.relays for options in one.options]
        places = min(min(one.max_in_flight, max(one.batch_bytes // LARGEST, 1)) for one in options)
        places = min(places, *(one.capacity for one in plan.relays))
        rounds = 1 + len(events) // places
        if plan.key_order is not None:
            rounds = max(rounds, len(events))  # one event waits for the other
        cutting = {event_id for fault in plan.faults if _cuts(fault) for event_id in fault.events}
        if cutting:
            rounds += _LEVELS * len(cutting)
        scarred = sum(map(_may_kill, events))
        stall = late * (rounds + scarred)
        silent = {event_id for fault in plan.faults if _is_silent(fault) for event_id in fault.events}
        mute = [event for event in events if event.event_id in silent]
        # One mute destination leaves places to the others; single mute events of several do not.
        single = {event_id for fault in plan.faults if isinstance(fault, Answered) for event_id in fault.events}
        full = bool(single & silent) and 2 * len(mute) >= min(one.max_in_flight for one in options)
        full = full or 2 * sum(event.size for event in mute) >= min(one.batch_bytes for one in options)
        full = full or len(mute) >= min(one.capacity for one in plan.relays)
        if plan.key_order is not None:
            # No places are reserved there, and what is behind a mute event in its key takes places and bytes, too.
            keys = {event.key for event in mute if event.key is not None}
            behind = [event for event in events if event in mute or event.key in keys]
            full = full or len(behind) >= min(one.max_in_flight for one in options)
            full = full or 2 * sum(event.size for event in behind) >= min(one.batch_bytes for one in options)
        # Groups of suspects that are not answered take one lane each.
        full = full or (bool(cutting) and len(mute) >= LANES)
        if mute and full:
            stall += len(mute) * (plan.publish_timeout + 2.0)
        elif mute and (scarred or any(fault.expires for fault in plan.faults)):
            stall += len(mute) * 2 * SLOW  # those that travel alone wait for it, and others for those
        return stall

    def _travel(self) -> float:
        """How long payloads may travel, each event's as often as it may be claimed."""
        rates = [fault.rate for fault in self._plan.faults if isinstance(fault, SlowLink)]
        if not rates:
            return 0.0
        tries = dict.fromkeys(self._plan.own, self._plan.retry.max_attempts)
        events = [event for one in self._plan.transactions for event in one.events]
        return sum(event.size * (1 + tries.get(event.event_id, 0)) for event in events) / min(rates) + _SLACK

    def _aftermath(self, fault: Fault) -> float:
        """Seconds after a fault's end in which the promises may still be broken by what it left."""
        plan = self._plan
        longest = max(one.deadline for one in plan.relays) + 2.0
        seconds = longest + 3.0
        if fault.repeats:
            seconds += plan.publish_timeout + 3.0
        if fault.expires:
            seconds += plan.lease * 1.25 + 2 * plan.retry.max_delay * (1 + plan.retry.jitter)
        if isinstance(fault, ClockStep):
            seconds += abs(fault.seconds)
        return seconds

    def limit(self, one: EventId) -> float:
        """When this event must have come to its end; infinite for one whose own fault lasts, or that stays paused."""
        holder = self._ledger.holder.get(one)
        if holder is not None and self._plan.pauses:
            return self._limit(one, max(holder.since, self._ledger.inserted[one]))  # what is in flight is finished
        known = self._limits.get(one)
        if known is None:
            known = self._limits[one] = self._limit(one, self._ledger.inserted[one], self._pauses_of(one))
        return known

    def _pauses_of(self, one: EventId) -> list[Paused]:
        """The pauses that hold it back: its own, and in order per key those of the events before it."""
        types = {self._types[one]}
        if self._plan.key_order is not None:
            types.update(self._types[other] for other in self._before(one))
        return [pause for pause in self._plan.pauses if any(map(pause.target.holds, types))]

    def watch(self, now: float, ready: Mapping[str, bool]) -> None:
        """What the running relays report at this moment; raises Violation for a standstill that none of them does."""
        waiting = (one for one in self._ledger.inserted if one not in self._ledger.done and one not in self._own)
        waiting = (one for one in waiting if not self._is_paused(one))
        self._watch.look(now, ready, (one for one in waiting if not self._blocked(one) and not self._follows(one)))

    def _is_paused(self, one: EventId) -> bool:
        """Whether it waits for an operator to resume it."""
        ledger = self._ledger
        holding = ledger.pauses.holding(self._types[one], ledger.database_time()) if self._plan.pauses else []
        return bool(holding) and one not in ledger.holder

    def _follows(self, one: EventId) -> bool:
        """Whether it waits behind another event of its key, which is looked at instead."""
        inserted, done = self._ledger.inserted, self._ledger.done
        return self._plan.key_order is not None and any(
            other in inserted and other not in done for other in self._before(one)
        )

    def _limit(self, one: EventId, begin: float, pauses: Sequence[Paused] = ()) -> float:
        if self._plan.mode == STANDSTILL:
            return FOR_GOOD
        limit = begin + BASE + _SLACK + self._queue
        delays = [(fault.at, self._delays_until(fault)) for fault in self._faults if fault.delays]
        delays += [(pause.at, pause.until + self._clock_steps * pause.has_end) for pause in pauses]
        for at, over in sorted(delays):
            if at <= limit and over > begin:
                limit = max(limit, over + BASE + _SLACK + self._queue)
        if one not in self._own or limit == FOR_GOOD:
            return limit
        if self._plan.lasting:
            return FOR_GOOD
        plan = self._plan
        tries = plan.retry.max_attempts + 1
        one_try = plan.retry.max_delay * 1.2 + plan.publish_timeout + plan.lease * 1.5 + 5.0
        return max(limit, plan.end + 40.0 + tries * one_try)

    def _delays_until(self, fault: Fault) -> float:
        return (fault.until if fault.until < FOR_GOOD else fault.at) + self._aftermath(fault)

    def all_done(self, now: float) -> bool:
        """Whether all that must come to an end has; raises Violation for one that is late."""
        done = self._ledger.done
        waiting = False
        for one in self._ledger.inserted:
            if one in done:
                continue
            limit = self.limit(one)
            if now > limit and not self._blocked(one):
                kind = "its fault is over" if one in self._own else "innocent"
                kind += ", in flight" if one in self._ledger.holder else ""
                raise Violation(
                    f"{one} ({kind}), committed at {self._ledger.inserted[one]:.3f}, "
                    f"is neither DELIVERED nor DEAD by {limit:.3f}"
                )
            waiting = waiting or (limit < FOR_GOOD and not self._blocked(one))
        return not waiting

    def _blocked(self, one: EventId) -> bool:
        """Whether it waits behind a dead event of its key until an operator replays that one."""
        return self._plan.key_order is KeyOrder.BLOCK and any(
            self._ledger.states.get(other) is Status.DEAD for other in self._before(one)
        )

    def _before(self, one: EventId) -> list[EventId]:
        """The events of its key that were inserted before it."""
        events = [event for transaction in self._plan.transactions for event in transaction.events]
        place = next(place for place, event in enumerate(events) if event.event_id == one)
        key = events[place].key
        return [event.event_id for event in events[:place] if key is not None and event.key == key]

    def check_history(self) -> None:
        """Attempts, duplicates and order."""
        for at, one, relay in self._ledger.reaped:
            if one not in self._own and not self._excused(at, relay):
                raise Violation(f"{one} (innocent) lost an attempt at {at:.3f}: the lease of {relay} ran out")
        for one, arrivals in self._ledger.arrivals.items():
            innocent = one not in self._own and not self._ledger.blame[one]
            if len(arrivals) > 1 and innocent and not self._may_repeat(arrivals[-1][0]):
                raise Violation(f"{one} (innocent) reached the broker {len(arrivals)} times")
        for claim in self._ledger.pauses.paused_claims:
            late = claim.at - claim.since
            if late > _OBEYED and not self._read_late(claim):
                raise Violation(
                    f"{claim.event_id}: claimed by {claim.relay} at {claim.at:.3f}, {late:.3f} s after its pause"
                )
        self._check_trials()
        if self._plan.key_order is not None:
            self._check_order()

    def _check_trials(self) -> None:
        """An event whose destination is away is tried now and then, not claimed and released without a pause."""
        plan, ledger = self._plan, self._ledger
        shortest = min(one.connect_retry_interval for relay in plan.relays for one in relay.options)
        for fault in plan.away:
            begin = fault.at + plan.publish_timeout  # until then late acknowledgements arrive
            until = min(fault.until, ledger.clock())
            most = _MORE_TRIALS + 2 * (until - begin) / shortest
            for one in fault.events:
                relays = Counter(relay for at, relay in ledger.claims.get(one, ()) if begin <= at <= until)
                for relay, claims in relays.items():
                    if claims > most:
                        raise Violation(f"{one}: its destination is away, and {relay} claimed it {claims} times")

    def _read_late(self, claim: PausedClaim) -> bool:
        """Whether a fault explains that the relay did not know of the pause, or that its claim took long."""
        return any(
            isinstance(fault, _READ_LATE)
            and hurts(fault, claim.relay)
            and fault.at <= claim.at
            and fault.until + self._aftermath(fault) >= claim.since
            for fault in self._faults
        )

    def _excused(self, at: float, relay: str) -> bool:
        return self._plan.leases_differ or any(
            fault.expires and hurts(fault, relay) and fault.at <= at and self._over(fault) >= at
            for fault in self._faults
        )

    def _may_repeat(self, at: float) -> bool:
        return self._plan.leases_differ or any(
            fault.repeats and fault.at <= at and self._over(fault) >= at for fault in self._plan.faults
        )

    def _over(self, fault: Fault) -> float:
        """Until when a fault explains what happens; one that lasts explains it as long as what it hurts is there."""
        return fault.until + self._aftermath(fault) + self._queue + self._plan.lease

    def _check_order(self) -> None:
        """First arrivals of each key are in the order of insertion, but for dead events."""
        order: dict[EventId, tuple[int, str]] = {}
        for transaction in self._plan.transactions:
            for event in transaction.events:
                if event.key is not None and not transaction.rolled_back:
                    order[event.event_id] = (len(order), event.key)
        last: dict[str, int] = {}
        for one in self._ledger.order:
            if one not in order or self._ledger.states.get(one) is Status.DEAD:
                continue
            place, key = order[one]
            if place < last.get(key, -1):
                raise Violation(f"{one} of key {key} first reached the broker behind a later event of its key")
            last[key] = place


def _may_kill(event: NewEvent) -> bool:
    return (event.last_error or "").startswith("LEASE_EXPIRED")


def _cuts(fault: Fault) -> TypeGuard[Answered]:
    return isinstance(fault, Answered) and fault.answer is Answer.CUT


def _is_silent(fault: Fault) -> TypeGuard[Answered | DestinationSilent]:
    return isinstance(fault, DestinationSilent) or (
        isinstance(fault, Answered) and fault.answer in (Answer.SILENT, Answer.DROP)
    )
