"""Where this relay's events go: the publisher, with routes or several destinations where these are set.

Used by the daemon, ``relay-cli check`` and ``relay-cli route``, so that a file means the same for all of them. Without
ROUTES_FILE, ROUTE_PREFIX and DESTINATIONS_FILE it is the publisher of PUBLISHER_TYPE and nothing around it; but for
webhooks, and what has a rate, which are destinations by their names however they are configured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from relay.app import publishers
from relay.brokers import kinds
from relay.core.destination import DestinationState, WatchedDestination
from relay.core.event import OutboxEvent
from relay.core.known_secrets import KNOWN_SECRETS
from relay.core.ports import Publisher
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.pace import TokenBucket
from relay.engine.destination.proving import several
from relay.engine.destination.routed import routed
from relay.routing.rules import Routes
from relay.settings.destinations_file import read_destinations
from relay.settings.endpoints_file import read_endpoints
from relay.settings.routes_file import read_routes
from relay.settings.settings import Settings
from relay.telemetry import catalogue as metrics
from relay.telemetry.providers import Reading, Sample

NOWHERE = "none"
"""The destination of an event that is dropped, or whose destination's name is not known."""


class Named(NamedTuple):
    """The destinations of DESTINATIONS_FILE and HTTP_ENDPOINTS_FILE."""

    destinations: Mapping[str, Settings]
    """By their names; one that no file names by its PUBLISHER_NAME."""
    vias: tuple[str, ...]
    """Those that routes may name; empty without DESTINATIONS_FILE."""
    default: str
    further: Mapping[str, Routes]
    """The routes to the endpoints of a destination, by its name."""


class RoutingPlan(NamedTuple):
    """What the settings say, read and checked; nothing is built."""

    destinations: Mapping[str, Settings]
    """See ``Named``."""
    routes: Routes | None
    """None where every event goes to the destination of its type's name."""
    several: bool
    """Whether a file names destinations."""

    @property
    def fan_out(self) -> bool:
        """Whether routes send events to several destinations each."""
        return self.routes is not None and self.routes.to_several

    @property
    def transactions(self) -> bool:
        """Whether one of them is published to in transactions."""
        return any(own.kafka_transactions for own in self.destinations.values())

    @property
    def warnings(self) -> list[str]:
        """What the routes cannot do for events of one type that go to several destinations by a header.

        Where claims cannot tell these apart.
        """
        routes = self.routes
        return [
            f"route {rule.number} sends events of one type to several destinations by the header "
            f"{' and '.join(rule.headers)}: {why}, so while one of them does not answer, events for the others are "
            "delivered in small groups; give them types of their own to avoid that"
            for rule in (() if routes is None else routes.rules)
            if routes is not None and (why := routes.inseparable(rule))
        ]


def read_named(settings: Settings) -> Named:
    """Read the files that name destinations. Raises ConfigError with every problem of a file."""
    several = read_destinations(settings)
    destinations: dict[str, Settings] = {}
    further: dict[str, Routes] = {}
    for name, own in (several or {settings.publisher_name: settings}).items():
        if own.publisher_type == "http" and own.http_endpoints_file is not None:
            prefix = f"{name}/" if several else ""
            read, further[name] = read_endpoints(name, prefix, own, publishers.http_endpoint)
            destinations |= read
        else:
            destinations[name] = own
    return Named(destinations, tuple(several), next(iter(several), settings.publisher_name), further)


def read_plan(settings: Settings) -> RoutingPlan:
    """Read the files. Raises ConfigError with every problem of a file."""
    named = read_named(settings)
    file = settings.routes_file
    rules = [] if file is None else read_routes(file, named.vias, settings.delivery_log_tenant_header)
    several = bool(named.vias or named.further)
    if not (several or rules or settings.route_prefix or _has_member(settings)):
        return RoutingPlan(named.destinations, None, several=False)
    by_name = [name for name, own in named.destinations.items() if _is_apart_by_name(own)]
    routes = Routes(rules, settings.route_prefix, named.default, named.further, by_name)
    return RoutingPlan(named.destinations, routes, several)


def _has_member(settings: Settings) -> bool:
    """Whether a single destination is one by its name, too: webhooks, and what has a rate."""
    return settings.publisher_type == "http" or settings.publisher_rate is not None


def _is_apart_by_name(own: Settings) -> bool:
    """Whether what a name stands for at this destination can fail on its own: a queue, a topic."""
    kind = kinds.find(own.publisher_type)
    return kind is not None and kind.apart_by_name


class Destinations:
    """The publisher of a relay, and what is shown of where events go."""

    def __init__(self, settings: Settings, now: Callable[[], float] = time.time) -> None:
        """``now`` is the time that publishers stamp and sign with. Raises ConfigError."""
        self.plan = plan = read_plan(settings)
        for own in plan.destinations.values():
            KNOWN_SECRETS.know(own.secrets())
        self._drops = Drops()
        self.publisher: Publisher
        by_name = {name: publishers.build_publisher(own, now) for name, own in plan.destinations.items()}
        if plan.routes is not None and (plan.several or _has_member(settings)):
            rates = {name: own.publisher_rate for name, own in plan.destinations.items()}
            paces = {name: TokenBucket(rate, time.monotonic) for name, rate in rates.items() if rate is not None}
            times = Times(
                retry_interval=settings.publisher_connect_retry_interval, connection_timeout=self.connection_timeout
            )
            self.publisher = several(by_name, plan.routes, self._drops, times, paces)
        else:
            [publisher] = by_name.values()
            self.publisher = publisher if plan.routes is None else routed(publisher, plan.routes, self._drops)

    @property
    def connection_timeout(self) -> float:
        """Seconds that connecting to any of them may take."""
        return max(map(publishers.connection_timeout, self.plan.destinations.values()))

    @property
    def warnings(self) -> list[str]:
        """What is not done exactly as DESTINATIONS_FILE and ROUTES_FILE say, or may surprise."""
        each = self.plan.destinations if self.plan.several else {}
        texts = [f"destination {name}: {text}" for name, own in each.items() for text in own.warnings]
        return texts + self.plan.warnings

    def by_name(self, each: Sequence[WatchedDestination]) -> dict[str, WatchedDestination]:
        """What the engine knows of ``each`` of them, by its name, and of their parts that do not flow."""
        by_name = dict(zip(self.plan.destinations, each, strict=True))
        return by_name | {f"{name}/{part}": one for name, whole in by_name.items() for part, one in whole.parts.items()}

    def read(self, each: Sequence[WatchedDestination]) -> Iterator[Reading]:
        """The provider of the destinations' metrics."""
        states = {name: one.state for name, one in self.by_name(each).items()}
        if self.publisher.members:
            up = [Sample((name,), float(states[name] < DestinationState.AWAY)) for name in self.plan.destinations]
            yield metrics.DESTINATION_UP, up
        yield metrics.DESTINATION_STATE, [Sample((name,), float(state)) for name, state in states.items()]
        paced = {name: waiting for name, one in self.by_name(each).items() if (waiting := one.waiting) is not None}
        if paced:
            yield metrics.DESTINATION_RATE, [Sample((name,), one.rate) for name, one in paced.items()]
            yield metrics.DESTINATION_RATE_WAITING, [Sample((name,), float(one.events)) for name, one in paced.items()]
        if self.plan.routes is not None:
            dropped = list(self._drops.counts.items())
            yield metrics.DROPPED, [Sample((event_type,), float(count)) for event_type, count in dropped]

    @property
    def traced(self) -> Callable[[OutboxEvent], tuple[str, str]] | None:
        """The broker's type and the destination's name of an event, for spans; None where its type says both.

        Of an event for several: all of both, with commas between them.
        """
        return self._destination_of if self.plan.routes is not None else None

    @property
    def logged(self) -> Callable[[OutboxEvent], tuple[str, str]] | None:
        """The name and type of an event's destination, for the delivery log; None with one destination.

        Of an event for several: those that have not acknowledged it, with commas between them.
        """
        return self._named if self.plan.several else None

    def _destination_of(self, event: OutboxEvent) -> tuple[str, str]:
        sent = self.plan.routes.places(event).sent if self.plan.routes is not None else ()
        if not self.plan.several:
            [own] = self.plan.destinations.values()
            return own.publisher_type, sent[0].name if sent else event.event_type
        if not sent:
            return NOWHERE, event.event_type
        return self._types(one.via for one in sent), ",".join(one.name for one in sent)

    def _named(self, event: OutboxEvent) -> tuple[str, str]:
        names = self.publisher.destination_of(event)
        return (names, self._types(names.split(","))) if names else (NOWHERE, NOWHERE)

    def _types(self, names: Iterable[str]) -> str:
        return ",".join(self.plan.destinations[name].publisher_type for name in names)
