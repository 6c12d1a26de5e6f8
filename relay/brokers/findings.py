"""What the checks of all kinds of destinations say in the same words: for their ``check`` modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relay.core.finding import Finding, Level
from relay.core.outcome import Permanent


def all_exist(subject: str, noun: str, names: Sequence[str], sample: int) -> Finding:
    """Nothing is missing for these names, which ``sample`` waiting events have at most."""
    if not names:
        return Finding(Level.OK, subject, "no event waits, so no destination was checked")
    return Finding(Level.OK, subject, f"a {noun} exists for each event type of the first {sample} waiting events")


def without_refused(
    names: Sequence[str], refusal: Callable[[str], Permanent | None]
) -> tuple[list[str], list[Finding]]:
    """The names to which events are sent, and a warning for each other one, with what ``refusal`` says of it."""
    advice = "correct the type, the route or ALLOWED_EVENT_TYPES (docs/operate/trust.md), if they are to be sent"
    refused = {name: why for name in names if (why := refusal(name)) is not None}
    findings = [
        Finding(Level.WARNING, "refused", f"events for {name[:200]!r} become DEAD: {why.code}: {why.reason}", advice)
        for name, why in refused.items()
    ]
    return [name for name in names if name not in refused], findings
