"""The clock by which leases and pauses are measured."""

from __future__ import annotations

import time
from typing import Final

_BOOT_TIME: Final = getattr(time, "CLOCK_BOOTTIME", None)  # Linux has it


def steady_seconds() -> float:
    """Seconds that never go back, and that pass while the host is suspended, where the platform can tell.

    ``time.monotonic`` stops while a Linux host sleeps or its virtual machine is paused by a suspend: a lease would seem
    to have time left that has run out in the database.
    """
    return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)
