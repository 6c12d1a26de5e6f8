"""The daemon's entry point: read the settings, set up logs, run, and turn the end into an exit code.

relay              run; 0 after a clean stop, 1 after a failure, 2 when a setting or the table is wrong
relay --help       every environment variable
relay --version
relay --healthcheck    0 when the relay of this environment answers /healthz, for container engines

Each command imports what it needs when it runs: a container engine asks for the health every few seconds.
"""

import sys

from relay.version import __version__, client_problem

EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_INTERRUPTED = 130
"""Ctrl-C before the relay has its own signal handlers."""

_HEALTH_SECONDS = 2  # for the connection and for each read; HEALTHCHECK of the image waits 3


def main() -> int:
    """Run the command line's one command; returns the exit code."""
    try:
        if problem := client_problem():
            sys.stderr.write(f"relay: {problem}\n")
            return EXIT_FAILED
        return _command(sys.argv[1:])
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _command(arguments: list[str]) -> int:
    match arguments:
        case []:
            return _run()
        case ["--help" | "-h"]:
            from relay.settings.describe import help_text

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
    import logging

    from relay.telemetry.logs import LogOptions, configure_logs

    configure_logs(LogOptions())

    from relay.core.errors import ConfigError
    from relay.settings.settings import Settings

    try:
        settings = Settings.from_process()
    except ConfigError as error:
        for problem in str(error).splitlines():
            logging.getLogger("relay.settings").critical("%s", problem, extra={"action": "wrong_setting"})
        return EXIT_CONFIG
    json, level = settings.environment == "production", logging.getLevelNamesMapping()[settings.log_level.upper()]
    configure_logs(LogOptions(json, settings.relay_id, level, settings.secrets()))

    import os

    import uvloop

    from relay.app.loop import RelayLoop
    from relay.app.run import run

    async def live() -> int:
        code = await run(settings)
        # Everything is settled and closed. A client library's thread that still waits for a hanging broker must not
        # delay the exit, and the interpreter would wait for it.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)

    return uvloop.run(live(), loop_factory=RelayLoop)


def _healthcheck() -> int:
    """Ask the relay that runs with this environment; for the HEALTHCHECK of an image without curl."""
    from relay.core.errors import ConfigError
    from relay.settings.listening import server_address

    try:
        address = server_address()
    except ConfigError as error:
        sys.stderr.write(f"relay: {error}\n")
        return EXIT_CONFIG
    host = address.host if address.host not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 - compared only
    try:
        status = _health_status(host, address.port)
    except OSError as error:
        reason = error.strerror or str(error)
        sys.stderr.write(f"relay: {host} port {address.port} (SERVER_PORT) does not answer: {reason}\n")
        return EXIT_FAILED
    if not status.isdecimal():
        sys.stderr.write(f"relay: {host} port {address.port} (SERVER_PORT) is not a relay: its answer is not HTTP\n")
        return EXIT_FAILED
    if status != "200":
        sys.stderr.write(f"relay: /healthz answered {status}; the relay's log says why\n")
        return EXIT_FAILED
    return 0


def _health_status(host: str, port: int) -> str:
    """Return the status code of /healthz, or what stands in its place. Raises OSError.

    Written by hand: the standard library's HTTP client costs more processor time than all the rest of the check.
    """
    import socket

    with socket.create_connection((host, port), timeout=_HEALTH_SECONDS) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        answer = b""
        while b"\n" not in answer and (received := connection.recv(1024)):
            answer += received
    if not answer:
        raise OSError("it closed the connection")
    return answer.decode("latin-1").partition(" ")[2][:3]


if __name__ == "__main__":
    sys.exit(main())
