"""All output of the process as log lines on standard error: JSON in production, for people in development.

``configure_logs`` is called once by the program, as early as it can, and again once the settings are known. From
then on the standard library's loggers (ours and those of client libraries), structlog, warnings, and exceptions
not caught in the main thread, in other threads, in the event loop and in destructors all end up here, one
line each. Nothing is ever written to standard output, which belongs to ``PUBLISHER_TYPE=stdout``. Logging never
raises: a record that fails to format is replaced by one that says so, and one that fails to be written is lost.

A line has ``ts`` (UTC), ``level``, ``logger``, ``msg``, ``relay_id``, ``action`` where one is given, the other
fields of ``extra=``, ``exception`` (the traceback) and ``suppressed`` (how many like it were left out).
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from relay.core.known_secrets import KNOWN_SECRETS
from relay.core.outside import LONGEST_TEXT, harmless, shown
from relay.core.secrets import MASK, is_secret
from relay.telemetry.throttle import RepetitionFilter

_QUIET = (
    "uvicorn.error",
    "uvicorn.access",
    "asyncio",
    "psycopg.pool",
    "httpx",
    "opentelemetry",
    "botocore",
    "aiobotocore",
)
_OWN = "relay"
_LONGEST_TRACEBACK = 10 * LONGEST_TEXT
_UNCAUGHT = logging.getLogger("relay.uncaught")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How the process logs."""

    json: bool = True
    """JSON lines; else lines for people."""
    relay_id: str = ""
    """Noted on every JSON line; empty: not yet known."""
    level: int = logging.INFO
    """Below INFO it counts for the relay's own loggers alone: client libraries print payloads and logins there."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts that are masked wherever they stand, besides those that ``KNOWN_SECRETS`` knows."""


class _LineHandler(logging.StreamHandler[IO[str]]):
    """A stream handler that has no other output than its stream, whatever happens."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Say that a line could not be formatted, or nothing when the stream itself is gone."""
        error = sys.exc_info()[1]
        if isinstance(error, (OSError, ValueError)) and self.stream.closed:
            return
        stand_in = logging.LogRecord(
            record.name,
            logging.ERROR,
            record.pathname,
            record.lineno,
            "a log line is malformed: %r",
            (record.msg,),
            None,
        )
        try:
            self.stream.write(self.format(stand_in) + self.terminator)
            self.flush()
        except (OSError, ValueError):
            return


def configure_logs(options: LogOptions) -> None:
    """Send everything to standard error. May be called again; the last call counts."""
    KNOWN_SECRETS.know(options.secrets)
    handler = _LineHandler()
    before = _before(options)
    handler.setFormatter(_formatter(options, before, colours=sys.stderr.isatty()))
    handler.addFilter(RepetitionFilter())
    logging.basicConfig(handlers=[handler], level=max(options.level, logging.INFO), force=True)
    logging.getLogger(_OWN).setLevel(options.level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(options.level, logging.WARNING))
    # It warns of what follows from an error that it also raises, and that we tell.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[*before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    threading.excepthook = _uncaught_in_thread


def _before(options: LogOptions) -> list[Processor]:
    """What is noted on a line, whether it comes from the standard library's logging or from structlog."""
    return [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts" if options.json else "timestamp"),
        structlog.processors.format_exc_info,
    ]


def _formatter(options: LogOptions, before: list[Processor], *, colours: bool) -> logging.Formatter:
    after: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _mask]
    if options.json:
        identity = {"relay_id": options.relay_id} if options.relay_id else {}
        after += [_named(identity), structlog.processors.JSONRenderer(default=str)]
    else:
        after += [
            _harmless,
            structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback),
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=before, processors=[*after], keep_exc_info=False, keep_stack_info=False
    )


def _mask(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The last line of defence: cuts what is long and masks every secret, whichever library logged it."""
    for name, value in event.items():
        if isinstance(value, str) and is_secret(name):
            event[name] = MASK
        elif not isinstance(value, (int, float, bool, type(None))):
            longest = _LONGEST_TRACEBACK if name == "exception" else LONGEST_TEXT
            event[name] = shown(str(value), longest, KNOWN_SECRETS.pattern)
    return event


def _harmless(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """What applications wrote controls no terminal."""
    return {name: harmless(value, "\n\t") if isinstance(value, str) else value for name, value in event.items()}


def _named(identity: dict[str, str]) -> Processor:
    """Put the fields into their order, under our names."""

    def order(_logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> EventDict:
        first = {name: event.pop(name, "") for name in ("ts", "level", "logger")}
        return {**first, "msg": event.pop("event", ""), **identity, **event}

    return order


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _UNCAUGHT.critical("uncaught %s", kind.__name__, exc_info=(kind, error, trace), extra={"action": "crash"})


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and args.exc_type is not SystemExit:
        name = args.thread.name if args.thread is not None else "a thread"
        _UNCAUGHT.error(
            "uncaught %s in thread %s",
            args.exc_type.__name__,
            name,
            exc_info=(args.exc_type, args.exc_value, args.exc_traceback),
            extra={"action": "thread_crash"},
        )


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    error = args.exc_value
    _UNCAUGHT.error(
        "ignored %s%s",
        args.exc_type.__name__,
        f": {args.err_msg}" if args.err_msg else "",
        exc_info=(args.exc_type, error, args.exc_traceback) if error is not None else None,
        extra={"action": "ignored_error"},
    )
