"""What the checks of all kinds of destinations say in the same words: for their ``check`` modules."""

from __future__ import annotations

from collections.abc import Sequence

from relay.core.finding import Finding, Level


def all_exist(subject: str, noun: str, names: Sequence[str], sample: int) -> Finding:
    """Nothing is missing for these names, which ``sample`` waiting events have at most."""
    if not names:
        return Finding(Level.OK, subject, "no event waits, so no destination was checked")
    return Finding(Level.OK, subject, f"a {noun} exists for each event type of the first {sample} waiting events")
