"""The daemon's entry point."""

from __future__ import annotations


def main() -> int:
    """Run the relay; the exit code is 0 after a clean stop."""
    raise NotImplementedError
