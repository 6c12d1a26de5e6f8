"""How much of the time the readings beside delivery may take, which grow with what vacuum has not removed."""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.025
"""Most of the time that each of them takes: counting the backlog, and a walk over all leases.

While events come one by one, this and looking behind (``relay.outbox.waiting_rows``) are what a held horizon costs
the server.
"""
