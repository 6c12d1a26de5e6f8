"""What to say of a variable that is needed and not set: how to write it, and which other one was set in its place.

Names and values of the environment stay apart: an error names the other variable and shows nothing of its value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_HOW: Final = {
    "STORAGE_URL": "write postgres://host:5432/database?user=name",
    "DELIVERY_LOG_URL": "write postgres://user@host:5432/database; relay-cli log also takes --delivery-log-url",
}
_OTHERS: Final = {
    "STORAGE_URL": ("DATABASE_URL", "POSTGRES_URL", "POSTGRESQL_URL"),
    "DELIVERY_LOG_URL": ("LOG_STORE_URL", "LOG_STORE_URL_FILE"),
}
"""Variables of other programs and of an earlier release, which are not read."""


def missing(variable: str, names: Collection[str]) -> str:
    """The sentence for ``variable``; ``names`` are those of all variables that are set, in any case."""
    others = [name for name in sorted(names) if name.upper() in (variable, *_OTHERS[variable])]
    said = [f"{name} is set and is not read: set {variable} instead" for name in others]
    return "; ".join([f"{variable} is not set", _HOW[variable], *said])
