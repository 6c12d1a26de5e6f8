"""The acceptance suite's daemons, for the contract's tests too."""

from __future__ import annotations

from tests.acceptance.conftest import daemon

__all__ = ["daemon"]
