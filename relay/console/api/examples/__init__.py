"""An example of every operation, for people who read the OpenAPI document and programs that are made from it.

A test sends each of them to a console, in this order, and compares the answers with these.
"""

from __future__ import annotations

from typing import Final

from relay.console.api.examples.changes import CHANGING
from relay.console.api.examples.log import LOG
from relay.console.api.examples.model import CHANGE_ID, EVENT_IDS, Example
from relay.console.api.examples.reading import READING
from relay.console.api.examples.store import STORE

EXAMPLES: Final = (*READING, *LOG, *STORE, *CHANGING)
"""Those that change something come last."""

__all__ = ["CHANGE_ID", "EVENT_IDS", "EXAMPLES", "Example"]
