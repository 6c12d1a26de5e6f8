"""The times of a fleet's heartbeats, and how the relays of one table differ: for relays, operators and the console.

Pure. ``join`` in ``sql/outbox/fleet.sql`` compares destinations like ``same_destination``: the database refuses a relay
there before its row exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from relay.core.durations import format_duration

Value = TypeVar("Value")

HEARTBEAT: Final = 5.0
"""Seconds between two heartbeats of a relay."""
LIVING: Final = 30.0
"""Seconds after its last heartbeat for which a relay counts as living: six of them may be lost."""
FORGOTTEN: Final = 600.0
"""Seconds after which the row of a relay that is gone is deleted."""

DESTINATION: Final = "destination"
"""The name of a difference that is no variable."""
ROUTES: Final = "routes"
"""Beside its variables, under this name: the routes that a relay obeys, as text."""
REFUSES: Final = "the database refuses to "
"""With which a relay's state, and so its heartbeat, says that rows are refused."""

NO_ANSWER: Final = "no answer for event types "
"""With which it says which event types are left out of claims because their destination does not answer."""

_BESIDE: Final = re.compile(f"(?={REFUSES}|{NO_ANSWER})")
_CONDITION: Final = re.compile(r"destination (\S{1,300}) is (slow|blocked|away|refused) since (\S+Z): ")
_EVENT: Final = re.compile(r"\bevent ([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b", re.IGNORECASE)


class ReportedCondition(NamedTuple):
    """What a relay says of one destination that does not flow."""

    name: str
    state: str
    """``slow``, ``blocked``, ``away`` or ``refused``."""
    since: str
    """RFC 3339."""
    reason: str


class CommonSettings(NamedTuple):
    """What all relays of a table must have in common, as one of them has it."""

    destination_type: str
    """PUBLISHER_TYPE."""
    destination: str
    """Fingerprints of its servers, for ``same_destination``; they hold no secret."""
    lease_timeout: float
    """Seconds."""
    ordering: str
    """``none``, ``key`` (skip a dead event) or ``key, block``."""
    on_delivered: str
    """``keep`` or ``delete``."""
    message_format: str | None
    """None for a relay of a version that does not report it."""
    route_prefix: str | None
    """None where it is unset."""
    transactions: str | None = None
    """KAFKA_TRANSACTIONS; None for a relay of a version without it."""
    routes: str | None = None
    """A digest of its routes; None where it has none."""


@dataclass(frozen=True, slots=True)
class SharedValue(Generic[Value]):
    """A value, and the relays that have it."""

    value: Value
    relays: list[str]


def heartbeat_reason(troubles: Mapping[str, str], beside: Iterable[str] = ()) -> str:
    """What is wrong, as a heartbeat says it: destinations (what they are like, by title), then rows and types."""
    return "; ".join([*(f"{title} is {trouble}" for title, trouble in troubles.items()), *beside])


def conditions_in(reason: str) -> Iterator[ReportedCondition]:
    """The destinations of a ``heartbeat_reason``."""
    matches = list(_CONDITION.finditer(reason))
    ends = [*(one.start() for one in matches[1:]), len(reason)]
    for one, end in zip(matches, ends, strict=False):
        text = _BESIDE.split(reason[one.end() : end])[0]
        yield ReportedCondition(one[1], one[2], one[3], text.removesuffix("; "))


def reasons_beside(reason: str) -> Iterator[str]:
    """What a ``heartbeat_reason`` says beside its destinations: what is refused or left out, or is wrong with it."""
    first, *others = _BESIDE.split(reason)
    if first and _CONDITION.search(first) is None:
        yield first.removesuffix("; ")
    yield from (part.removesuffix("; ") for part in others)


def event_in(reason: str) -> str:
    """The id of the first event that a part of a ``heartbeat_reason`` names; empty where it names none."""
    match = _EVENT.search(reason)
    return match[1] if match else ""


def same_destination(one: str, other: str) -> bool:
    """Whether two relays of one type deliver to one destination: their lists of fingerprints share a server.

    A server belongs to one cluster. Lists without a common server differ, also where they name one cluster.
    """
    return not set(one.split()).isdisjoint(other.split())


def compared(relays: Sequence[tuple[str, Mapping[str, Value]]]) -> dict[str, list[SharedValue[Value]]]:
    """The values of each name over the relays, in the order of the relays: one value where they agree.

    Each relay comes with its id and its values by name. A name that a relay does not know is no difference.
    """
    groups: dict[str, dict[Value, SharedValue[Value]]] = {}
    for relay_id, values in relays:
        for name, value in values.items():
            groups.setdefault(name, {}).setdefault(value, SharedValue(value, [])).relays.append(relay_id)
    return {name: list(values.values()) for name, values in groups.items()}


def settings_that_differ(relays: Sequence[tuple[str, CommonSettings]]) -> dict[str, list[SharedValue[str]]]:
    """What the relays must have in common and have not: by variable (or ``DESTINATION``), the texts of the values."""
    names = _destination_names([settings for _, settings in relays])
    rows = [(relay_id, _texts(own, name)) for (relay_id, own), name in zip(relays, names, strict=True)]
    return {name: values for name, values in compared(rows).items() if len(values) > 1}


def _texts(settings: CommonSettings, destination: str) -> dict[str, str]:
    return {
        DESTINATION: destination,
        "LEASE_TIMEOUT": format_duration(settings.lease_timeout),
        "ORDERING": settings.ordering,
        "ON_DELIVERED": settings.on_delivered,
        "MESSAGE_FORMAT": settings.message_format or "unset",
        "ROUTE_PREFIX": settings.route_prefix or "unset",
        "KAFKA_TRANSACTIONS": settings.transactions or "false",
        ROUTES: f"digest {settings.routes}" if settings.routes else "none",
    }


def _destination_names(members: Sequence[CommonSettings]) -> list[str]:
    """The destination of each, named after the first that shares it."""
    firsts: list[CommonSettings] = []
    names = []
    for member in members:
        alike = (one for one in firsts if one.destination_type == member.destination_type)
        first = next((one for one in alike if same_destination(one.destination, member.destination)), None)
        if first is None:
            firsts.append(first := member)
        names.append(f"{first.destination_type} {first.destination}")
    return names
