"""Templates to pages: the environment of Jinja2, and what every page shows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from uuid import uuid4

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape
from starlette.responses import HTMLResponse

from relay.console.access import AccessRole, Identity
from relay.console.context import console_of, shows_payloads
from relay.console.static import STATIC
from relay.core.durations import span
from relay.core.outside import harmless
from relay.postgres.codec import Moment
from relay.version import __version__

FOLDER: Final = Path(__file__).parent
NAVIGATION: Final = (
    ("/", "Overview", "o"),
    ("/events", "Events", "e"),
    ("/dead", "Dead letters", "d"),
    ("/types", "Types", "t"),
    ("/fleet", "Relays", "r"),
    ("/settings", "Settings", "s"),
    ("/log", "Delivery log", "l"),
    ("/store", "Event store", "v"),
    ("/changes", "Changes", "c"),
)
"""Address, name, and the key that leads to it after g."""

_WITHHELD: Final = {
    "overview.html": {AccessRole.OPERATOR: "replay and retry"},
    "events.html": {AccessRole.OPERATOR: "changes of the events found", AccessRole.ADMIN: "prune"},
    "event.html": {AccessRole.OPERATOR: "headers, payload, and what changes the event"},
    "dead.html": {AccessRole.OPERATOR: "replay and retry"},
    "types.html": {AccessRole.OPERATOR: "pause and resume"},
    "fleet.html": {AccessRole.OPERATOR: "pause and resume"},
    "change.html": {AccessRole.OPERATOR: "stop"},
    "log_event.html": {AccessRole.OPERATOR: "headers and payload"},
    "log_attempt.html": {AccessRole.OPERATOR: "the response of the broker"},
    "store_stream.html": {AccessRole.OPERATOR: "bodies"},
}
"""What a page shows to a role and to higher ones alone; to the others it says so."""


def moment(value: Moment | None) -> str:
    """A time for people: UTC, to the second."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return value or "—"


def _iso(value: Moment | None) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else ""


def _ago(value: Moment | None) -> str:
    """How long ago, or in how long, in the largest unit: the exact time is beside it."""
    if not isinstance(value, datetime):
        return value or "—"
    seconds = (datetime.now(UTC) - value).total_seconds()
    largest = " ".join(span(abs(seconds)).split()[:2])
    return f"{largest} ago" if seconds >= 0 else f"in {largest}"


def _latency(seconds: float | None) -> str:
    """A short time for people: ``40 ms``, ``1.2 s``, or as ``span`` from a minute on."""
    if seconds is None:
        return "—"
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else span(seconds)


def _spark(counts: Mapping[int, int]) -> str:
    """A bar for each minute since 1970 that has a count, in the 60 units before now: the path of an image, 12 high."""
    first, most = int(time.time() // 60) - 59, max(counts.values(), default=1)
    bars = ((minute - first, 12 * events / most) for minute, events in sorted(counts.items()))
    return "".join(f"M{place}.5 12V{12 - height:.1f}" for place, height in bars if place >= 0)


def _harmless(value: object) -> object:
    """What a template writes: text of the outbox without what controls a terminal or turns its direction around."""
    return harmless(value, kept="\n\t") if type(value) is str else value


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    environment.filters |= {
        "moment": moment,
        "iso": _iso,
        "ago": _ago,
        "span": span,
        "latency": _latency,
        "query": urlencode,
        "spark": _spark,
        "stored": escape,  # for a form, which sends it back: it stays as it is
    }
    environment.globals |= {
        "static": STATIC,
        "navigation": NAVIGATION,
        "version": __version__,
        "new_key": lambda: str(uuid4()),
    }
    return environment


_ENVIRONMENT: Final = _environment()


def page(request: Request, template: str, identity: Identity | None, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401 - whatever the template takes
    """Answer with a template."""
    return HTMLResponse(rendered(request, template, identity, **values), status)


def rendered(request: Request, template: str, identity: Identity | None, **values: Any) -> str:  # noqa: ANN401 - likewise
    """Render a template; without an identity nothing of the outbox is named."""
    shared = {
        "request": request,
        "identity": identity,
        "table": str(console_of(request).table) if identity is not None else "",
        "csrf_token": getattr(request.state, "csrf_token", ""),
        "operates": identity is not None and identity.role >= AccessRole.OPERATOR,
        "administers": identity is not None and identity.role >= AccessRole.ADMIN,
        "sees_payloads": identity is not None and shows_payloads(identity),
        "withheld": [
            (what, role)
            for role, what in _WITHHELD.get(template, {}).items()
            if identity is not None and identity.role < role
        ],
    }
    return _ENVIRONMENT.get_template(template).render(**shared, **values)
