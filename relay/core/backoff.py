"""The retry delay of docs/reference/conformance.md#errors, without a clock and without randomness of its own."""

from __future__ import annotations

from dataclasses import dataclass

_REAP_LATEST = 10.0  # seconds
_MOST_DOUBLINGS = 62  # beyond this every delay is past any cap, and a float power could overflow


def reap_latest(lease_timeout: float) -> float:
    """Seconds after an expiry in which taking back must have begun."""
    return min(_REAP_LATEST, lease_timeout / 4)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a failing event is retried, and after which delays. Times are seconds."""

    max_attempts: int
    """Failed attempts after which an event is DEAD."""
    base_delay: float
    """Seconds before the second attempt."""
    max_delay: float
    """Seconds that no delay exceeds, without jitter."""
    jitter: float
    """Largest random share added to a delay."""

    def delay(self, attempts: int, chance: float, least: float = 0.0) -> float:
        """Seconds to wait after the ``attempts``-th failure; ``chance`` is a random number in [0, 1).

        ``min(base * 2^(attempts-1), max)``, plus up to ``jitter`` of it. ``least`` is the wait that a destination asks
        for: a shorter delay is raised to it, and to ``max`` at most, so that no destination can hold an event forever.
        """
        doublings = min(max(attempts - 1, 0), _MOST_DOUBLINGS)
        delay = min(max(self.base_delay * 2.0**doublings, least), self.max_delay)
        return delay * (1.0 + self.jitter * chance)

    def repeated_within(self, lease_timeout: float) -> float:
        """Seconds from a claim until its event is due again at the latest, where the relay died that held it."""
        return lease_timeout + reap_latest(lease_timeout) + self.delay(1, 1.0)

    def exhausted(self, attempts: int) -> bool:
        """Whether an event with that many failed attempts is DEAD."""
        return attempts >= self.max_attempts
