"""Routes as a relay's heartbeat has them, for a process that has no ROUTES_FILE. Pure.

They are JSON: lists, which ``read_reported`` makes the same routes of.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import Template

LONGEST: Final = 65_536
"""Characters. Longer ones are not reported."""
_DIGITS: Final = 12


def routes_text(routes: Routes) -> str | None:
    """The routes as text; None where it is longer than ``LONGEST``."""
    text = json.dumps(_written(routes), separators=(",", ":"))
    return text if len(text) <= LONGEST else None


def routes_digest(routes: Routes) -> str | None:
    """By which routes of two relays are compared, of any length; None without a route. ROUTE_PREFIX is not in it."""
    written = _written(routes)
    compared = {name: written[name] for name in ("rules", "further") if written[name]}
    return hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()[:_DIGITS] if compared else None


def read_reported(text: str) -> Routes:
    """The routes that were written. Raises ValueError for a text that no relay of this version has written."""
    try:
        return _read(json.loads(text))
    except (TypeError, AttributeError, IndexError, KeyError) as error:
        raise ValueError(f"no routes: {error}") from error


def _written(routes: Routes) -> dict[str, Any]:
    return {
        "prefix": routes.prefix,
        "default": routes.default,
        "rules": [[rule.number, rule.pattern, [[via, *to] for via, to in rule.targets]] for rule in routes.rules],
        "further": {name: _written(inner) for name, inner in routes.further.items()},
    }


def _read(written: dict[str, Any]) -> Routes:
    rules = []
    for number, pattern, targets in written["rules"]:
        read = [Target(via, Template(text, tuple(texts), tuple(gaps))) for via, text, texts, gaps in targets]
        rules.append(
            Rule(number, pattern, read[0].to, read[0].via, tuple(read[1:])) if read else Rule(number, pattern, None, "")
        )
    further = {name: _read(inner) for name, inner in written["further"].items()}
    return Routes(rules, written["prefix"], written["default"], further)
