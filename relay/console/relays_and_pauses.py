"""The relays and the pauses of the outbox, as far as the table has the extensions; and pausing, with its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

from relay.console.context import Console
from relay.console.problems import RequestProblem, invalid_request
from relay.console.recording import DOING, recorded
from relay.core.durations import time_text
from relay.core.errors import ConfigError, SchemaError
from relay.core.pause import Pause, PauseTarget
from relay.outbox.admin.changes import Change, Request
from relay.outbox.admin.connection import Connection
from relay.outbox.admin.pause import check_pause, list_pauses, pause_within, pausing, resume_within
from relay.outbox.admin.relays import FleetMember, RelaySettings, list_relays, list_settings
from relay.outbox.table_check import UNDEFINED_TABLE

T = TypeVar("T")


def relays_of_console(console: Console) -> list[FleetMember]:
    """The relays. Raises RequestProblem without the extension fleet."""
    return existing(_optional(lambda: list_relays(console.url, console.table)), console, "fleet")


def pauses_of_console(console: Console) -> list[Pause]:
    """The pauses in force. Raises RequestProblem without the extension pause."""
    return existing(_optional(lambda: list_pauses(console.url, console.table)), console, "pause")


def settings_of_console(console: Console) -> list[RelaySettings] | None:
    """What the relays run with; None without the extension fleet."""
    return _optional(lambda: list_settings(console.url, console.table))


def existing(read: T | None, console: Console, extension: str) -> T:
    """What was read of an extension's table. Raises RequestProblem where the outbox lacks the extension."""
    if read is None:
        message = f"table {console.table} lacks the extension {extension}; run as the owner: relay-cli migrate"
        message += f" --table {console.table} --with {extension}"
        raise RequestProblem(503, "extension-missing", message)
    return read


def _optional(read: Callable[[], list[T]]) -> list[T] | None:
    try:
        return read()
    except SchemaError as error:
        if error.sqlstate == UNDEFINED_TABLE:
            return None
        raise


def set_pause(console: Console, target: PauseTarget, until: datetime | None, request: Request) -> Change:
    """Pause, once for a key. Raises RequestProblem for an invalid target or end, and without the extension."""
    described = {**_described(target), "until": time_text(until, "microseconds") if until is not None else None}

    def work(connection: Connection) -> int:
        pause_within(connection, console.table, target, who=request.who, reason=request.reason, until=until)
        return 1

    with _refusing():
        check_pause(target, until)
        return _recorded(console, "pause", described, request, work)


def end_pause(console: Console, target: PauseTarget | None, request: Request) -> Change:
    """Resume a target, or for None everything; once for a key. The change counts the pauses that ended.

    Raises as ``set_pause``.
    """
    described: dict[str, object] = {"pauses": "every"} if target is None else _described(target)
    with _refusing():
        if target is not None:
            check_pause(target, None)
        return _recorded(
            console, "resume", described, request, lambda its: len(resume_within(its, console.table, target))
        )


@contextmanager
def _refusing() -> Iterator[None]:
    """A pause that is not possible is the request's fault, and no wrong setting of the console."""
    try:
        yield
    except ConfigError as error:
        raise invalid_request(str(error)) from error


def _described(target: PauseTarget) -> dict[str, object]:
    return {"scope": str(target.scope), "name": target.name}


def _recorded(
    console: Console, action: str, described: dict[str, object], request: Request, work: Callable[[Connection], int]
) -> Change:
    pauses_of_console(console)  # raises without the extension
    with pausing(console.url, console.table, DOING) as connection:
        return recorded(connection, console.table, action, described, request, lambda: work(connection))
