"""PostgreSQL arrays as text: for values sent so often that the driver's own way of writing a list is felt.

Both are bound as a parameter like any other value.
"""

from __future__ import annotations

from collections.abc import Iterable


def id_array(event_ids: Iterable[str]) -> str:
    """Canonical UUIDs need no quoting, and one join is all it costs."""
    return "{" + ",".join(event_ids) + "}"


def text_array(texts: Iterable[str | None]) -> str:
    """Any texts, and NULL for None; the driver's way costs a tenth of an event store's append."""
    quoted = ("NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    return "{" + ",".join(quoted) + "}"
