"""Rules: which destination an event goes to. Pure; the first rule whose pattern matches the event's type counts.

What is decided for an event:

- ``Sent``: where it goes. Without a matching rule: the default destination, under the event's type.
- ``SentToAll``: the rule names several destinations, and the event goes to each of them (``fanout``).
- ``Dropped``: it is not sent, because a rule says so.
- ``Unmatched``: no rule matches it, and there is no default. It fails an attempt, too.
- ``Incomplete``: the rule's name needs a header that the event does not have. Nothing is guessed: the event fails an
  attempt and is tried again, as for a destination that does not exist, so that the rules can be corrected meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from relay.core.event import OutboxEvent
from relay.core.headers import RAW_HEADERS, wire_headers
from relay.core.outcome import Acknowledged, Transient
from relay.core.patterns import compile_pattern, exactly, like
from relay.core.places import Apart, Flow, Place, Places
from relay.core.remembered import LONGEST_REMEMBERED
from relay.routing.template import Missing, Template, read_template

_MOST_REMEMBERED: Final = 10_000  # event types
MOST_PATTERNS: Final = 100
"""Of the endpoints of a destination, so that claims can tell apart by them what a header sends there."""
PLAIN: Final = read_template("{type}", "")
"""The name of a destination where no rule gives another: the event type."""


class Target(NamedTuple):
    """One of the destinations that a rule names."""

    via: str
    to: Template


class Rule(NamedTuple):
    """One entry of ROUTES_FILE."""

    number: int
    """From 1, as in the file."""
    pattern: str
    """An event type; ``*`` stands for any text."""
    to: Template | None
    """The destination's name; None drops the event."""
    via: str
    """The destination of DESTINATIONS_FILE; empty without one."""
    further: tuple[Target, ...] = ()
    """The destinations beside it, where the event goes to several."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """All of its destinations; none for a rule that drops."""
        return () if self.to is None else (Target(self.via, self.to), *self.further)

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that the names of its destinations need."""
        return tuple(dict.fromkeys(header for target in self.targets for header in target.to.headers))


class Sent(NamedTuple):
    """The event goes there."""

    via: str
    name: str
    rule: Rule | None
    """None where no rule matches."""


class SentToAll(NamedTuple):
    """The event goes to each of them."""

    sent: tuple[Sent, ...]
    rule: Rule


class Dropped(NamedTuple):
    """The event is not sent."""

    rule: Rule


class Incomplete(NamedTuple):
    """The name of the destination is not known."""

    rule: Rule
    header: str

    @property
    def code(self) -> str:
        """What ``last_error`` begins with."""
        return "ROUTE_INCOMPLETE"

    def __str__(self) -> str:
        names = " and ".join(target.to.text for target in self.rule.targets)
        route = f"route {self.rule.number} sends {self.rule.pattern} to {names}"
        return f"{route}, and the event has no header {self.header}; add the header, or correct ROUTES_FILE"


class Unmatched(NamedTuple):
    """No pattern takes the event, and there is no default."""

    event_type: str
    rule: Rule | None = None

    @property
    def code(self) -> str:
        """What ``last_error`` begins with."""
        return "NO_ENDPOINT"

    def __str__(self) -> str:
        return f"no pattern of HTTP_ENDPOINTS_FILE matches {self.event_type!r}, and PUBLISHER_URL is not set"


class Undecided(NamedTuple):
    """The event's type alone does not decide: the name has a header in it."""

    rule: Rule
    target: Target | None = None
    """The destination by whose names claims tell such events apart, where that is of use."""


Decision = Sent | SentToAll | Dropped | Incomplete | Unmatched


class Routes:
    """The rules, ROUTE_PREFIX and the default destination."""

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        prefix: str = "",
        default: str | None = "",
        further: Mapping[str, Routes] | None = None,
        by_name: Collection[str] = (),
    ) -> None:
        """``default`` is the destination of events that no rule matches; None where there is none.

        ``further`` are the rules of a destination that stands for several: by the names that events have there.
        ``by_name`` are those of which each name can fail on its own: queues, for example.
        """
        self._rules = [(compile_pattern(rule.pattern), rule) for rule in rules]
        self.rules = rules
        self.prefix = prefix
        self.default = default
        self.further = further or {}
        self._in_parts = {*self.further, *by_name}
        self._known: dict[str, Places | Undecided] = {}
        """What is known of each event type."""
        self.by_header = any(rule.headers for rule in rules)
        """Whether events of one type may go to different destinations."""
        self.to_several = any(rule.further for rule in rules)
        """Whether some events go to several destinations each."""

    def places(self, event: OutboxEvent) -> Places:
        """See ``relay.core.places.Router``."""
        known = self._of_type(event.event_type)
        return _places(self._by_header(known.rule, event)) if isinstance(known, Undecided) else known

    def _of_type(self, event_type: str) -> Places | Undecided:
        known = self._known.get(event_type)
        if known is None:
            decision = self.of_type(event_type)
            known = self._with_target(decision) if isinstance(decision, Undecided) else _places(decision)
            if len(event_type) <= LONGEST_REMEMBERED:
                if len(self._known) >= _MOST_REMEMBERED:
                    self._known.clear()
                self._known[event_type] = known
        return known

    def flow_of(self, event: OutboxEvent) -> Flow:
        """See ``relay.core.places.FlowTeller``: where a header decides between what can fail on its own, by that."""
        event_type = event.announced_type
        known = self._of_type(event_type) if self.by_header else None
        if not isinstance(known, Undecided) or known.target is None:
            return event_type
        name = known.target.to.fill(event_type, dict(wire_headers(event.headers)))
        return event_type if isinstance(name, Missing) else self._apart(known.target, event_type, self.prefix + name)

    def _with_target(self, undecided: Undecided) -> Undecided:
        parts = self._parts(undecided.rule)
        return undecided._replace(target=parts[0]) if parts and not self.inseparable(undecided.rule) else undecided

    def _parts(self, rule: Rule) -> list[Target]:
        """The destinations of the rule that are one of several that can fail on their own, by a header."""
        return [one for one in rule.targets if one.to.headers and (one.via or self.default) in self._in_parts]

    def inseparable(self, rule: Rule) -> str:
        """Why claims cannot tell apart what a header sends to several destinations; empty where they can."""
        parts = self._parts(rule)
        if parts and sum(bool(one.to.headers) for one in rule.targets) > 1:
            return "a header is in more than one of its names"
        if any(RAW_HEADERS in one.to.headers for one in parts):
            return f"{RAW_HEADERS} is not in the table"
        inner = [routes for one in parts if (routes := self.further.get(one.via or self.default or ""))]
        if any(len(one.rules) > MOST_PATTERNS for one in inner):
            return f"the endpoints have more than {MOST_PATTERNS} patterns"
        texts = [self.prefix, *(text for one in parts for text in one.to.texts)]
        texts += [other.pattern for one in inner for other in one.rules]
        return "a name has a NUL" if any("\0" in text for text in texts) else ""

    def _apart(self, target: Target, event_type: str, name: str) -> Flow:
        """The events of this type that have the name, or another one of the same endpoint."""
        headers = target.to.headers
        start, *texts = target.to.around(event_type)
        via = target.via or self.default or ""
        flow = Apart(event_type, via, name, self.prefix + start, headers, tuple(texts), exactly(name))
        inner = self.further.get(via)
        if inner is None:
            return flow
        placed = inner.of_type(name)
        if not isinstance(placed, Sent):
            return event_type
        patterns = [like(rule.pattern) for rule in inner.rules] + ["%"]
        place = -1 if placed.rule is None else inner.rules.index(placed.rule)
        return flow._replace(via=placed.via, part="", pattern=patterns[place], earlier=tuple(patterns[:place]))

    def decide(self, event: OutboxEvent) -> Decision:
        """Where this event goes, and by which rule."""
        decision = self.of_type(event.event_type)
        return self._by_header(decision.rule, event) if isinstance(decision, Undecided) else decision

    def _by_header(self, rule: Rule, event: OutboxEvent) -> Decision:
        return self._fill(rule, event.event_type, dict(wire_headers(event.headers)))

    def of_type(self, event_type: str) -> Decision | Undecided:
        """Where events of this type go, as far as the type alone decides."""
        rule = next((rule for expression, rule in self._rules if expression.fullmatch(event_type)), None)
        if rule is None:
            return self._place(self.default, event_type, None)
        if rule.to is None:
            return Dropped(rule)
        return Undecided(rule) if rule.headers else self._fill(rule, event_type, {})

    def _fill(self, rule: Rule, event_type: str, headers: Mapping[str, str]) -> Decision:
        sent: list[Sent] = []
        for via, to in rule.targets:
            name = to.fill(event_type, headers)
            if isinstance(name, Missing):
                return Incomplete(rule, name.header)
            placed = self._place(via or self.default, name, rule)
            if isinstance(placed, Unmatched):
                return placed
            sent.append(placed)
        return sent[0] if len(sent) == 1 else SentToAll(tuple(sent), rule)

    def _place(self, via: str | None, name: str, rule: Rule | None) -> Sent | Unmatched:
        """The event at a destination; where that stands for several, at the one that takes the name."""
        if via is None:
            return Unmatched(name, rule)
        sent = Sent(via, self.prefix + name, rule)
        if via not in self.further:
            return sent
        inner = self.further[via].of_type(sent.name)
        return inner._replace(rule=rule or inner.rule) if isinstance(inner, Sent) else Unmatched(sent.name, rule)


def _places(decision: Decision) -> Places:
    match decision:
        case Sent(via, name):
            return Places((Place(via, name),))
        case SentToAll(sent):
            return Places(tuple(Place(one.via, one.name) for one in sent))
        case Dropped(rule):
            return Places((), Acknowledged({"dropped_by_route": rule.number}), rule.number)
        case _:
            return Places((), Transient(decision.code, str(decision)))
