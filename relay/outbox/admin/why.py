"""Why an event is not delivered: one sentence, what to do, and what else is in its way. Pure: it judges facts.

``why`` looks for these causes, in this order. The first that holds is the answer, the others are ``also``:

``delivered``    The event is DELIVERED. Nothing is in its way, and nothing else is looked for.
``dead``         The event is DEAD: it failed for good, and waits for a replay. Nothing else is looked for.
``lease``        A relay has claimed it: it is on its way until the relay settles it, or its lease ends.
``backoff``      An attempt failed, and the next one is later; or it was inserted for a later time (``scheduled``).
``pause``        A pause in force holds its type.
``key``          Order per key: an earlier event of its key is unfinished, or is dead and holds the key.
``route``        The routes of the living relays send it nowhere: it fails, or is dropped.
``destination``  Its destination is away, refuses the relay, is blocked or is slow, as living relays say.
``relay``        No relay lives, or none that lives can use the database.
``refused``      The database refuses to change its row, as a living relay says.
``due``          None of these holds: a relay claims it next.

A cause that may hold, because living relays do not report the routes or the settings in force, says "if"
and stands in ``also``, behind the causes that hold. Facts that could not be read stand there last (``unknown``): an
answer never hides that it does not know all.

A leased event is past its pauses, its key and its time: beside the lease count its destination, as the holder of the
lease says, once the lease has ended, that no relay is there to take it back, and that the database refuses its row.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from relay.core.durations import time_text
from relay.core.event import Status
from relay.core.heartbeats import REFUSES, ReportedCondition, conditions_in
from relay.core.outcome import Transient
from relay.core.outside import shown
from relay.core.pause import Pause, PauseScope, PauseTarget
from relay.core.places import Place, Places
from relay.outbox.admin.browse import ShownEvent
from relay.outbox.admin.relays import FleetMember
from relay.postgres.codec import Moment

_LONGEST_ERROR: Final = 300  # characters of last_error in a sentence
_ROUTED: Final = frozenset({"several", "http"})  # destination types of which a relay may have more than one
_NAMED: Final = frozenset({"sqs", "sns"})  # those whose parts have the names of event types
CURES: Final = {
    "away": "Restore it, or the way to it: relays probe it and go on automatically.",
    "refused": "Correct the login or the certificate: relays try it and go on automatically.",
    "blocked": "Look at its disk, its memory and its quotas: relays go on when it takes events.",
    "slow": "Look at its load: what it acknowledges late is not lost.",
}
"""What to do about a destination, by its state."""


class EventAhead(NamedTuple):
    """An earlier event of the same key; the columns of ``ahead`` in ``sql/outbox/why.sql``."""

    event_id: str
    event_type: str
    status: str
    """PENDING, DELIVERING or DEAD."""
    since: Moment | None = None
    """When it entered its status, of a dead one."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What may be in an event's way, as far as it could be read."""

    now: datetime
    """The database's."""
    pauses: Sequence[Pause] = ()
    """Those in force."""
    relays: Sequence[FleetMember] | None = None
    """The rows of the relays; None without the extension fleet."""
    connected: Sequence[str] = ()
    """The relays that are connected to the database."""
    ahead: Sequence[EventAhead] = ()
    """The first unfinished and the first dead event before it in its key, in the order of the key; at most one each."""
    places: Mapping[str, Places] = field(default_factory=dict)
    """Where the routes of living relays send the event, by the relay's id; of those that report their routes."""
    unknown: Sequence[str] = ()
    """What could not be read, and why."""

    @property
    def living(self) -> list[FleetMember]:
        """The relays that live."""
        return [relay for relay in self.relays or () if relay.living]

    def orderings(self) -> set[str]:
        """ORDERING of the living relays; empty where it is not known."""
        return {relay.ordering for relay in self.living}


START: Final = (
    "Start a relay (the command relay, or its container); relay-cli check with its environment says what keeps it from "
    "starting."
)
"""What to do where there is no relay."""


class Reason(NamedTuple):
    """One cause that holds, or may hold."""

    cause: str
    """One of the names in the text of the module."""
    sentence: str
    step: str = ""
    """What to do; empty where there is nothing to do."""
    blocker: tuple[str, str] | None = None
    """What is in the way: ``event``, ``pause``, ``destination`` or ``relay``, and its id or name."""
    certain: bool = True
    pause: PauseTarget | None = None
    """Of the pause that is in the way."""

    def answer(self) -> dict[str, object]:
        """As JSON: what ``relay-cli show --json`` and the API return."""
        blocker = None if self.blocker is None else dict(zip(("kind", "name"), self.blocker, strict=True))
        return {"cause": self.cause, "sentence": self.sentence, "step": self.step, "blocker": blocker}


class Why(NamedTuple):
    """The answer, and what else is in the event's way."""

    first: Reason
    also: tuple[Reason, ...] = ()

    def answer(self) -> dict[str, object]:
        """As JSON."""
        return {**self.first.answer(), "also": [reason.answer() for reason in self.also]}


def why(event: ShownEvent, facts: Facts) -> Why:
    """Why the event is not delivered; of a DELIVERED one, when it was."""
    match event.status:
        case Status.DELIVERED:
            return Why(Reason("delivered", f"It was delivered at {_time(event.delivered_at)}."))
        case Status.DEAD:
            return Why(_dead(event))
        case Status.DELIVERING:
            reasons = [
                _lease(event, facts),
                *_destination(event, facts),
                *_no_relay(event, facts),
                *_refused(event, facts),
            ]
        case _:
            reasons = [
                *_later(event, facts),
                *_pauses(event, facts),
                *key_reasons(facts.ahead, facts.orderings()),
                *_route(event, facts),
                *_destination(event, facts),
                *_no_relay(event, facts),
                *_refused(event, facts),
            ]
    certain = [reason for reason in reasons if reason.certain] or [_due(event, facts)]
    possible = [reason for reason in reasons if not reason.certain]
    unknown = [Reason("unknown", f"Not known: {text}.", certain=False) for text in facts.unknown]
    return Why(certain[0], (*certain[1:], *possible, *unknown))


def _dead(event: ShownEvent) -> Reason:
    return Reason(
        "dead",
        f"It has been dead since {_time(event.updated_at)}, after {_attempts(event)}{_error(event)}.",
        f"Remove the cause, then: relay-cli replay --id {event.event_id}",
    )


def _lease(event: ShownEvent, facts: Facts) -> Reason:
    held = f"Relay {event.locked_by} claimed it at {_time(event.locked_at)}"
    holders = [relay for relay in facts.relays or () if relay.relay_id == event.locked_by]
    blocker = ("relay", event.locked_by or "")
    if not holders or not isinstance(event.locked_at, datetime):
        step = "It is settled, or taken back when the lease ends (LEASE_TIMEOUT after the claim)."
        return Reason("lease", f"{held} and holds it.", step, blocker)
    end = event.locked_at + timedelta(seconds=max(relay.lease_timeout for relay in holders))
    if end > facts.now:
        return Reason("lease", f"{held} and holds it; the lease ends at {_time(end)}.", "", blocker)
    step = "A living relay takes it back, as a failed attempt."
    return Reason("lease", f"{held}; the lease ended at {_time(end)}.", step, blocker)


def _later(event: ShownEvent, facts: Facts) -> Iterator[Reason]:
    due = event.available_at
    if due <= facts.now if isinstance(due, datetime) else due != "infinity":
        return
    if event.attempts:
        sentence = f"It is tried again at {_time(due)}, after {_attempts(event)}{_error(event)}."
        step = f"Relays repeat it. Due now: Retry in the console, or POST /api/v1/events/{event.event_id}/retry."
        yield Reason("backoff", sentence, step)
    else:
        yield Reason("scheduled", f"It was inserted for a later time: it is due at {_time(due)}.")


def _pauses(event: ShownEvent, facts: Facts) -> Iterator[Reason]:
    for pause in facts.pauses:
        target = pause.target
        if target.holds(event.event_type):
            yield Reason("pause", _sentence(str(pause)), resume_command(target), ("pause", target.name), pause=target)


def resume_command(target: PauseTarget) -> str:
    """What ends the pause of exactly this target."""
    option = "" if target.scope is PauseScope.ALL else f" --{target.scope} {shlex.quote(target.name)}"
    return f"relay-cli resume{option}"


def key_reasons(ahead: Iterable[EventAhead], orderings: Set[str]) -> Iterator[Reason]:
    """What an event waits for in its key; ``orderings`` are those of the living relays, empty where not known."""
    for event in ahead:
        dead = event.status == Status.DEAD
        setting = "ORDERING_ON_DEAD=block" if dead else "ORDERING=key"
        holding = {ordering for ordering in orderings if ordering.startswith("key, block" if dead else "key")}
        if orderings and not holding:
            continue
        condition = "" if orderings else f", if relays run with {setting}"
        if dead:
            since = f" since {_time(event.since)}" if event.since else ""
            sentence = f"Event {event.event_id} of its key is dead{since} and holds the key{condition}."
            step = f"Remove the cause, then: relay-cli replay --id {event.event_id}"
        else:
            sentence = f"It waits behind event {event.event_id} of its key, which is {event.status}{condition}."
            step = f"relay-cli show {event.event_id}"
        yield Reason("key", sentence, step, ("event", event.event_id), certain=bool(orderings))


def _route(event: ShownEvent, facts: Facts) -> Iterator[Reason]:
    """What all living relays say of a route that sends the event nowhere."""
    places = [facts.places.get(relay.relay_id) for relay in facts.living]
    if not places or (place := places[0]) is None or place.outcome is None or places.count(place) < len(places):
        return
    step = f"relay-cli route {shlex.quote(event.event_type)} beside ROUTES_FILE says where it goes."
    if isinstance(place.outcome, Transient):
        sentence = f"No route: {place.outcome.reason}"
        yield Reason("route", _sentence(sentence), f"{step} Relays read the file at their start.")
    elif place.dropped_by:
        sentence = f"Route {place.dropped_by} drops it: it counts as delivered when a relay claims it, and is not sent."
        yield Reason("route", sentence, step)


def _destination(event: ShownEvent, facts: Facts) -> Iterator[Reason]:
    relays = facts.living
    if event.status == Status.DELIVERING:
        relays = [relay for relay in relays if relay.relay_id == event.locked_by]
    reports: dict[str, list[tuple[FleetMember, ReportedCondition]]] = {}
    for relay in relays:
        for condition in conditions_in(relay.reason):
            reports.setdefault(condition.name, []).append((relay, condition))
    for name, told in reports.items():
        places = [facts.places.get(each.relay_id) for each, _ in told]
        concerns = [_concerns(event, *report, place) for report, place in zip(told, places, strict=True)]
        if all(concern is False for concern in concerns):
            continue
        [(relay, condition), *_] = told
        routed = any(
            place is None and each.destination_type in _ROUTED and each.state != "paused"
            for (each, _), place in zip(told, places, strict=True)
        )
        certain = not routed and True in concerns and len(told) == len(relays)
        if certain:
            sentence = f"Its destination {name} is {condition.state} since {condition.since}: {condition.reason}"
        else:
            said = f", as relay {relay.relay_id} says" if True in concerns else " if it goes there"
            rest = " if its route goes there" if routed else said
            sentence = f"Destination {name} is {condition.state} since {condition.since}{rest}: {condition.reason}"
        step = CURES[condition.state]
        if routed:
            step = f"relay-cli route {shlex.quote(event.event_type)} says where it goes. {step}"
        yield Reason("destination", _sentence(sentence), step, ("destination", name), certain)


def _concerns(
    event: ShownEvent, relay: FleetMember, condition: ReportedCondition, places: Places | None
) -> bool | None:
    """Whether what a relay says of a destination is about the event, which it sends to these places; None: it may be.

    A relay of one destination names that by its kind, and its routes by PUBLISHER_NAME: every place is there. Behind
    a slash stands a part of it: a queue or topic, whose name is the event's, or what the event's name does not tell.
    """
    several = relay.destination_type in _ROUTED
    if several and places is None:
        return True
    sent = (Place("", event.event_type),) if places is None else places.sent
    whole, _, part = condition.name.partition("/")
    if not part or (several and any(place.via == condition.name for place in sent)):
        return any(not several or place.via == condition.name for place in sent)
    names = [_alike(place.name) for place in sent if not several or place.via == whole]
    if _alike(part) in names:
        return True
    return None if names and relay.destination_type not in _NAMED else False


def _alike(name: str) -> str:
    """A name as SQS and SNS have it, whatever stands there for what they do not take."""
    return re.sub("[./:_]", "-", name)


def _no_relay(event: ShownEvent, facts: Facts) -> Iterator[Reason]:
    if event.status == Status.DELIVERING and any(relay.relay_id == event.locked_by for relay in facts.living):
        return
    if not facts.living and not facts.connected:
        yield Reason("relay", _no_relay_is_connected(event, facts), START)
    elif facts.relays is None:
        return
    elif not facts.living:
        seen = f"although {', '.join(facts.connected)} is connected"
        yield Reason("relay", f"No relay has written its heartbeat for 30 s, {seen}.", START, certain=False)
    elif all(relay.state == "error" for relay in facts.living):
        relay = facts.living[0]
        sentence = _sentence(f"Relay {relay.relay_id} cannot use the database: {relay.reason}")
        yield Reason("relay", sentence, "relay-cli check says what to do.", ("relay", relay.relay_id))


def _refused(event: ShownEvent, facts: Facts) -> Iterator[Reason]:
    for relay in facts.living:
        _, refuses, rest = relay.reason.partition(REFUSES)
        if refuses and f" event {event.event_id}" in rest:
            step = "Correct the row, or the constraint or trigger that refuses it."
            yield Reason("refused", _sentence(REFUSES + rest), step, ("relay", relay.relay_id))
            return


def _due(event: ShownEvent, facts: Facts) -> Reason:
    if not facts.connected:  # one that has stopped counts as living until its last heartbeat is old
        return Reason("due", _no_relay_is_connected(event, facts), START)
    return Reason("due", f"It has been due since {_time(event.available_at)}: a relay claims it next.")


def _no_relay_is_connected(event: ShownEvent, facts: Facts) -> str:
    due = isinstance(event.available_at, datetime) and event.available_at <= facts.now
    if event.status != Status.PENDING or not due:
        return "No relay is connected to this database."
    return f"No relay is connected: it has been due since {_time(event.available_at)}."


def _attempts(event: ShownEvent) -> str:
    return f"{event.attempts} failed attempt{'' if event.attempts == 1 else 's'}"


def _error(event: ShownEvent) -> str:
    return f": {shown(event.last_error, _LONGEST_ERROR).rstrip('.')}" if event.last_error else ""


def _time(moment: Moment | None) -> str:
    return time_text(moment) if moment else "an unknown time"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
