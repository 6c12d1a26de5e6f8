"""An example of every operation of the admin API; docs/reference/http.md shows some of them.

A test sends each of them to a console, in this order, and compares the answers with these.
"""

from __future__ import annotations

from typing import Final

from deploy.reference.examples.changes import CHANGING
from deploy.reference.examples.inbox import INBOX
from deploy.reference.examples.log import LOG
from deploy.reference.examples.model import CHANGE_ID, EVENT_IDS, Example
from deploy.reference.examples.reading import READING
from deploy.reference.examples.store import STORE

EXAMPLES: Final = (*READING, *LOG, *STORE, *INBOX, *CHANGING)
"""Those that change something come last."""

__all__ = ["CHANGE_ID", "EVENT_IDS", "EXAMPLES", "Example"]
