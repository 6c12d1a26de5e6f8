"""NO_COLOR, the convention of terminal programs (no-color.org): set to anything, it turns colours off."""

from __future__ import annotations

import os


def no_color() -> bool:
    """Whether this process must not print colours."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
