"""What a subscription reports about itself, once a batch."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """A sink of measurements. Methods are cheap, never raise and never wait. Times are seconds."""

    def active(self, subscription: str, is_active: bool) -> None:
        """This instance has become the active one, or has ceased to be."""

    def delivered(self, subscription: str, events: int) -> None:
        """A batch of that many events was acknowledged."""

    def lag(self, subscription: str, positions: int, seconds: float) -> None:
        """How far behind the last position handed out, and the age of the oldest event not yet acknowledged."""

    def blocked(self, subscription: str, seconds: float) -> None:
        """How long the reader has been waiting for a transaction in flight that holds a lower position; 0.0: not."""


class NoMeter:
    """Measures nothing."""

    def active(self, subscription: str, is_active: bool) -> None:
        """Nothing."""

    def delivered(self, subscription: str, events: int) -> None:
        """Nothing."""

    def lag(self, subscription: str, positions: int, seconds: float) -> None:
        """Nothing."""

    def blocked(self, subscription: str, seconds: float) -> None:
        """Nothing."""
