"""Run the console: one process, until a signal."""

from __future__ import annotations

import gc
import logging
from typing import Final

from relay.app.duplicates import VARIABLES as DUPLICATES
from relay.core.extras import requires
from relay.settings.former import FORMER
from relay.settings.settings import Settings
from relay.settings.variables import NAMES
from relay.telemetry.logs import LogOptions, configure_logs

VARIABLES: Final = frozenset(
    {
        "STORAGE_URL",
        "STORAGE_TABLE_NAME",
        "LEASE_TIMEOUT",
        "ON_DELIVERED",
        "ENVIRONMENT",
        "LOG_LEVEL",
        "DELIVERY_LOG_URL",
        "DELIVERY_LOG_SCHEMA",
        "DELIVERY_LOG_PREFIX",
        "EVENT_STORE_SCHEMA",
        "API_TOKEN",
        *DUPLICATES,
        *(name for name in (*NAMES, *FORMER) if name.startswith("CONSOLE_")),
    }
)
"""The variables that the console reads."""

_log = logging.getLogger(__name__)


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError for a wrong setting, a missing extra or an occupied port."""
    with requires("console", "relay-cli console"):
        import uvicorn  # noqa: PLC0415 - only where the console runs

        from relay.console.app import build_console  # noqa: PLC0415 - the same
        from relay.server import BoundedServer, ClientConnection, ServerLimits, listen  # noqa: PLC0415 - the same
    host, port = settings.console_port
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    json = settings.environment == "production"
    configure_logs(LogOptions(json=json, relay_id="console", level=level, secrets=settings.secrets()))
    for text in settings.ignored:
        _log.warning("%s", text, extra={"action": "setting_warning"})
    app = build_console(settings)
    listening = listen("CONSOLE_PORT", host, port)
    _log.info("console at http://%s:%d", f"[{host}]" if ":" in host else host, port, extra={"action": "console"})
    config = uvicorn.Config(
        app,
        http=ClientConnection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # CONSOLE_TRUSTED_PROXIES decides; uvicorn believes every process of this machine
        timeout_graceful_shutdown=5,
    )
    gc.collect()
    gc.freeze()  # what is loaded by now lives as long as the process: looking for garbage in it doubles a page's time
    BoundedServer(config, listening, ServerLimits(), "CONSOLE_PORT").run()
