"""The HTTP side: health, readiness, stats and metrics.

``routes`` answers each path, ``http`` is the server in the relay's event loop. ``bounded_server`` and ``connections``,
which the console uses, too, bound the number of clients and how long a slow one may take.
"""

from __future__ import annotations

from relay.server.bounded_server import BoundedServer, listen
from relay.server.connections import ClientConnection, ServerLimits
from relay.server.http import ServerOptions, StatusServer

__all__ = ["BoundedServer", "ClientConnection", "ServerLimits", "ServerOptions", "StatusServer", "listen"]
