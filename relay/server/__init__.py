"""The HTTP side: health, readiness, stats and metrics."""

from __future__ import annotations

from relay.server.bounded_server import BoundedServer, listen
from relay.server.connections import ClientConnection, ServerLimits
from relay.server.http import ServerOptions, StatusServer

__all__ = ["BoundedServer", "ClientConnection", "ServerLimits", "ServerOptions", "StatusServer", "listen"]
