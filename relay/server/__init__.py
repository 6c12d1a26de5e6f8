"""The HTTP side: health, readiness, stats and metrics."""

from __future__ import annotations

from relay.server.connections import ServerLimits
from relay.server.http import ServerOptions, StatusServer

__all__ = ["ServerLimits", "ServerOptions", "StatusServer"]
