"""The cyclic garbage collector of the daemon's process, set once, for every destination.

Nearly all that an event leaves behind is freed by its reference count alone. The collector counts what was allocated
and is not free yet: with its default of 700 objects it runs dozens of times for each batch in flight, looks at live
events only, and takes a fifth of the processor time of the Kafka path.

Memory stays bounded. What is unreachable and cyclic (a traceback, a failed connection) counts as allocated, so a
collection follows after ``_YOUNG`` such objects at the latest, a few MiB.
"""

from __future__ import annotations

import gc
from typing import Final

_YOUNG: Final = 50_000
"""Objects allocated and not freed before a collection; more than all batches in flight hold with default settings."""
_MIDDLE: Final = 20
"""Collections of young objects before one of the middle generation."""
_OLD: Final = 50
"""Collections of the middle generation before a full one is considered."""


def set_collector() -> None:
    """Collect now, leave what survives alone for good, and collect rarely from here on.

    To be called once everything is imported and built: what the modules hold is never garbage, and a full collection
    that looked at it would hold up every thread for 10 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
