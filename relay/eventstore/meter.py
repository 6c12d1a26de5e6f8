"""The measurements of a subscription, reported once a batch."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """A sink of measurements. Methods are cheap, never raise and never wait. Times are seconds."""

    def active(self, subscription: str, is_active: bool) -> None:
        """This instance has become the active one, or is no longer."""

    def delivered(self, subscription: str, events: int) -> None:
        """A batch of that many events was acknowledged."""

    def lag(self, subscription: str, positions: int, seconds: float) -> None:
        """Distance to the newest assigned position, and the age of the oldest event not yet acknowledged."""

    def blocked(self, subscription: str, seconds: float) -> None:
        """How long the reader has waited for an open transaction that holds a lower position; 0.0: not waiting."""


class NoMeter:
    """Measures nothing."""

    def active(self, subscription: str, is_active: bool) -> None: ...

    def delivered(self, subscription: str, events: int) -> None: ...

    def lag(self, subscription: str, positions: int, seconds: float) -> None: ...

    def blocked(self, subscription: str, seconds: float) -> None: ...
