"""Rules: which destination an event goes to. Pure; the first rule whose pattern matches the event's type counts.

What is decided for an event:

- ``Sent``: where it goes. Without a matching rule: the default destination, under the event's type.
- ``Dropped``: it is not sent, because a rule says so.
- ``Incomplete``: the rule's name needs a header that the event does not have. Nothing is guessed: the event fails an
  attempt and is tried again, as for a destination that does not exist, so that the rules can be corrected meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from relay.core.event import OutboxEvent
from relay.core.headers import wire_headers
from relay.routing.template import Missing, Template, read_template

_MOST_REMEMBERED: Final = 10_000  # event types
PLAIN: Final = read_template("{type}", "")
"""The name of a destination where no rule gives another: the event type."""


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


class Sent(NamedTuple):
    """The event goes there."""

    via: str
    name: str
    rule: Rule | None
    """None where no rule matches."""


class Dropped(NamedTuple):
    """The event is not sent."""

    rule: Rule


class Incomplete(NamedTuple):
    """The name of the destination is not known."""

    rule: Rule
    header: str

    def __str__(self) -> str:
        return (
            f"route {self.rule.number} sends {self.rule.pattern} to {self.rule.to.text if self.rule.to else ''}, and "
            f"the event has no header {self.header}"
        )


class Undecided(NamedTuple):
    """The event's type alone does not decide: the name has a header in it."""

    rule: Rule
    to: Template


Decision = Sent | Dropped | Incomplete


class Routes:
    """The rules, ROUTE_PREFIX and the default destination."""

    def __init__(self, rules: Sequence[Rule] = (), prefix: str = "", default: str = "") -> None:
        """``default`` is the destination of DESTINATIONS_FILE for events that no rule matches."""
        self._rules = [(re.compile(_expression(rule.pattern), re.DOTALL), rule) for rule in rules]
        self._prefix = prefix
        self._default = default
        self._known: dict[str, Sent | Dropped | Undecided] = {}
        """What is decided for each event type."""
        self.by_header = any(rule.to is not None and rule.to.headers for rule in rules)
        """Whether events of one type may go to several destinations."""

    def decide(self, event: OutboxEvent) -> Decision:
        """Where this event goes. Headers are read only where a name needs one."""
        event_type = event.event_type
        known = self._known.get(event_type)
        if known is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            known = self._known[event_type] = self.of_type(event_type)
        if not isinstance(known, Undecided):
            return known
        rule, to = known
        name = to.fill(event_type, dict(wire_headers(event.headers)))
        if isinstance(name, Missing):
            return Incomplete(rule, name.header)
        return Sent(rule.via, self._prefix + name, rule)

    def of_type(self, event_type: str) -> Sent | Dropped | Undecided:
        """Where events of this type go, as far as the type alone decides."""
        rule = next((rule for expression, rule in self._rules if expression.fullmatch(event_type)), None)
        if rule is None:
            return Sent(self._default, self._prefix + event_type, None)
        if rule.to is None:
            return Dropped(rule)
        if rule.to.headers:
            return Undecided(rule, rule.to)
        return Sent(rule.via, f"{self._prefix}{rule.to.fill(event_type, {})}", rule)


def _expression(pattern: str) -> str:
    return ".*".join(re.escape(part) for part in pattern.split("*"))
