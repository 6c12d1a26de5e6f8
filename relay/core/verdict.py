"""From an outcome to what is written: the decision table of docs/reference/messages.md#errors. Pure and total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from relay.core.backoff import RetryPolicy
from relay.core.outcome import (
    Acknowledged,
    Away,
    ConnectionCut,
    Outcome,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)
from relay.core.outside import cut


@dataclass(frozen=True, slots=True)
class Deliver:
    """DELIVERING -> DELIVERED."""


@dataclass(frozen=True, slots=True)
class Retry:
    """DELIVERING -> PENDING, attempts + 1, due ``delay`` seconds after the database's now."""

    delay: float
    error: str


@dataclass(frozen=True, slots=True)
class Bury:
    """DELIVERING -> DEAD, attempts + 1."""

    error: str


@dataclass(frozen=True, slots=True)
class Release:
    """DELIVERING -> PENDING, attempts as before, due at once."""


Verdict = Deliver | Retry | Bury | Release

DELIVER = Deliver()
RELEASE = Release()


def decide(outcome: Outcome, attempts: int, policy: RetryPolicy, chance: float) -> Verdict:
    """Decide about an event that had failed ``attempts`` times before this outcome.

    ``chance`` is a random number in [0, 1) for the jitter. An undecided timeout counts as transient: without
    a probe the broker must not count as unreachable. An undecided cut counts as unreachable: without a second cut
    the event must not be blamed.
    """
    match outcome:
        case Acknowledged():
            return DELIVER
        case Permanent(code, reason):
            return Bury(error_text(code, reason))
        case Transient(code, reason) | TimedOut(code, reason):
            failed = attempts + 1
            error = error_text(code, reason)
            least = (outcome.not_before or 0.0) if isinstance(outcome, Transient) else 0.0
            return Bury(error) if policy.exhausted(failed) else Retry(policy.delay(failed, chance, least), error)
        case Unreachable() | ConnectionCut() | Withheld() | Away():
            return RELEASE
        case _:
            assert_never(outcome)


def error_text(code: str, reason: str) -> str:
    """``CODE: reason``, of bounded length."""
    return cut(f"{code}: {reason}" if reason else code)
