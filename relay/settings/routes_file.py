"""ROUTES_FILE: read and checked as a whole, at the start and by ``relay-cli route``.

The file is TOML. Every problem is reported at once, each with the file, the route's number in it, and what to write.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Any, Final

from relay.core.errors import ConfigError
from relay.core.patterns import never_used
from relay.routing.rules import Rule, Target
from relay.routing.template import Template, read_template
from relay.settings.toml import read_list, unknown_key

_KEYS: Final = ("type", "to", "drop", "via")
_EXAMPLE: Final = 'write for example [[route]], type = "orders.*", to = "shop.{type}"'


def read_routes(path: str, destinations: Sequence[str], tenant_header: str) -> list[Rule]:
    """The rules of a file; ``destinations`` are the names of DESTINATIONS_FILE, empty without one.

    Raises ConfigError with every problem.
    """
    routes, problems = read_list(path, "ROUTES_FILE", "route", "route", _EXAMPLE)
    rules = []
    for number, route in enumerate(routes, 1):
        reader = _RouteReader(number, route, destinations, tenant_header)
        rules.append(reader.rule())
        problems += [f"route {number}: {problem}" for problem in reader.problems]
    problems += never_used("route", [[rule.pattern] for rule in rules])
    if problems:
        raise ConfigError("\n".join(f"ROUTES_FILE: {path}: {problem}" for problem in problems))
    return rules


class _RouteReader:
    """One entry; what is wrong with it is in ``problems``."""

    def __init__(self, number: int, route: dict[str, Any], destinations: Collection[str], tenant_header: str) -> None:
        self.problems: list[str] = []
        self._number = number
        self._route = route
        self._destinations = destinations
        self._tenant_header = tenant_header

    def rule(self) -> Rule:
        """The rule, with an empty pattern where the entry has none."""
        for key in sorted(self._route.keys() - set(_KEYS)):
            self.problems.append(unknown_key(key, _KEYS))
        pattern, templates, destinations = self._pattern(), self._templates(), self._vias()
        to = templates[0] if templates else None
        if len(templates) > 1 and len(destinations) == 1:
            self.problems.append(
                "to is a list, and an event goes to one destination; write one name, or as many destinations in via"
            )
        elif len(templates) > 1 and len(templates) != len(destinations):
            self.problems.append(
                f"to has {len(templates)} names, and via {len(destinations)} destinations; write one for each, or one"
            )
        if to is None or len(destinations) < 2:
            return Rule(self._number, pattern, to, destinations[0])
        names = templates if len(templates) == len(destinations) else [to] * len(destinations)
        return Rule(self._number, pattern, to, destinations[0], tuple(map(Target, destinations[1:], names[1:])))

    def _pattern(self) -> str:
        pattern = self._route.get("type")
        if isinstance(pattern, str) and pattern:
            return pattern
        self.problems.append(
            'type is missing or not a string; write an event type, in which * matches any characters: "*"'
        )
        return ""

    def _templates(self) -> list[Template]:
        """The names; none for a route that drops."""
        drop = self._route.get("drop", False)
        if not isinstance(drop, bool):
            self.problems.append("drop is neither true nor false")
            return []
        if drop:
            if {"to", "via"} & self._route.keys():
                self.problems.append("drop = true is set together with to or via; remove one of them")
            return []
        to = self._route.get("to", "{type}" if "via" in self._route else None)
        names: list[Any] = to if isinstance(to, list) else [to]
        if not names or not all(isinstance(name, str) for name in names):
            self.problems.append('it has neither to nor drop; write to = "{type}" or drop = true')
            return []
        try:
            return [read_template(name, self._tenant_header) for name in names]
        except ValueError as error:
            self.problems.append(f"to: {error}")
        return []

    def _vias(self) -> list[str]:
        """The destinations in DESTINATIONS_FILE, one at least."""
        via = self._route.get("via", [""])
        names = via if isinstance(via, list) else [via]
        if not names or not all(isinstance(name, str) for name in names) or ("via" in self._route and "" in names):
            self.problems.append(
                "via is not a string; write the name of a destination in DESTINATIONS_FILE, or several: "
                '["main", "audit"]'
            )
            return [""]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            self.problems.append(f"via names {', '.join(repeated)} twice; name each destination once")
        return [self._destination(name) for name in names]

    def _destination(self, via: str) -> str:
        if via and not self._destinations:
            self.problems.append(f"via names the destination {via!r}, and DESTINATIONS_FILE is not set; set it")
        elif via and via not in self._destinations:
            near = difflib.get_close_matches(via, self._destinations, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(self._destinations)}"
            self.problems.append(f"DESTINATIONS_FILE has no destination {via!r}; {hint}")
        return via or (next(iter(self._destinations), ""))
