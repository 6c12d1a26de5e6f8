"""The daemon's entry point: read the settings, set up logs, run, and turn the end into an exit code.

relay              run; 0 after a clean stop, 1 after a failure, 2 when a setting or the table is wrong
relay --help       every environment variable
relay --version
relay --healthcheck    0 when the relay of this environment answers /healthz, for container engines
"""

from __future__ import annotations

import logging
import os
import sys
import urllib.error
import urllib.request

from relay.core.errors import ConfigError
from relay.settings import Settings, help_text
from relay.version import __version__

EXIT_FAILED = 1
EXIT_CONFIG = 2


def main() -> int:
    """Run the command line's one command; returns the exit code."""
    arguments = sys.argv[1:]
    match arguments:
        case []:
            return _run()
        case ["--help" | "-h"]:
            sys.stdout.write(help_text())
            return 0
        case ["--version"]:
            sys.stdout.write(f"relay {__version__}\n")
            return 0
        case ["--healthcheck"]:
            return _healthcheck()
        case _:
            sys.stderr.write(f"relay: unknown argument {' '.join(arguments)}; see relay --help\n")
            return EXIT_CONFIG


def _run() -> int:
    import uvloop

    from relay.app.run import run
    from relay.telemetry.logs import LogOptions, configure_logs

    configure_logs(LogOptions())
    try:
        settings = Settings.from_process()
    except ConfigError as error:
        for problem in str(error).splitlines():
            logging.getLogger("relay.settings").critical("%s", problem, extra={"action": "wrong_setting"})
        return EXIT_CONFIG
    configure_logs(LogOptions(json=settings.environment == "production", relay_id=settings.relay_id))

    async def live() -> int:
        code = await run(settings)
        # Everything is settled and closed. A thread of a client library that still waits for a broker which hangs
        # must not hold up the exit, and the interpreter would wait for it.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)

    return uvloop.run(live())


def _healthcheck() -> int:
    """Ask the relay that runs with this environment; for HEALTHCHECK, where there is no curl."""
    try:
        address = Settings.from_process(only=["SERVER_PORT"]).server_port
    except ConfigError as error:
        sys.stderr.write(f"relay: {error}\n")
        return EXIT_CONFIG
    host = address.host if address.host not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 - compared only
    try:
        with urllib.request.urlopen(f"http://{host}:{address.port}/healthz", timeout=2) as answer:
            return 0 if answer.status == 200 else EXIT_FAILED
    except (OSError, urllib.error.URLError) as error:
        sys.stderr.write(f"relay: {error}\n")
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
