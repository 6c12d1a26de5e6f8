"""Pause and resume: hold back the whole outbox, an event type, or the types that begin with a prefix.

A pause is a row in the table of ``sql/outbox/extensions/pause.sql``, so restarts keep it. Relays read it once a second:
within two seconds none of them claims a paused event. What a relay has claimed by then is delivered. The events stay as
they are in the table, and are due as before when the pause ends.

The database user needs SELECT, INSERT, UPDATE and DELETE on that table, to list pauses SELECT alone. Each function
raises SchemaError without the extension (``sqlstate`` 42P01; the message says how to add it) or without the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from relay.core.durations import time_text
from relay.core.errors import ConfigError
from relay.core.pause import Pause, PauseTarget
from relay.outbox.admin.connection import Connection, fetch, operating_beside, short_transaction
from relay.outbox.extensions import pauses_of
from relay.outbox.pauses import pause_of, pause_statement, read_pauses
from relay.postgres.grants import rights_text
from relay.postgres.sql import TableName

_RIGHTS: Final = rights_text("outbox/grants", "operator_pauses")
_LONGEST: Final = timedelta(days=36_525)
_LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)  # the table holds no later end, in the zone of its creation


def list_pauses(url: str, table: TableName) -> list[Pause]:
    """The pauses in force, the oldest first."""
    with _operating(url, table, "listing the pauses", "SELECT") as connection:
        return read_pauses(connection, table)


def pause(
    url: str,
    table: TableName,
    target: PauseTarget,
    *,
    who: str,
    reason: str = "",
    until: datetime | timedelta | None = None,
) -> Pause:
    """Set a pause and return it; one of the same target gets the new end, author and reason, and stays in force.

    ``until`` is a time, or how long from now by the database's clock; None lasts until ``resume``. Raises ConfigError
    for an invalid target, and for an end that is not in the future, or in the year 10000.
    """
    check_pause(target, until)
    with pausing(url, table, "pausing") as connection:
        return pause_within(connection, table, target, who=who, reason=reason, until=until)


def pause_within(
    connection: Connection,
    table: TableName,
    target: PauseTarget,
    *,
    who: str,
    reason: str = "",
    until: datetime | timedelta | None = None,
) -> Pause:
    """As ``pause``, after ``check_pause`` and in a transaction of ``pausing``, which a record of it can share."""
    parameters = {
        "scope": target.scope,
        "name": target.name,
        "until": until if isinstance(until, datetime) else None,
        "for_seconds": until.total_seconds() if isinstance(until, timedelta) else None,
        "paused_by": who,
        "reason": reason,
    }
    connection.execute(pause_statement("forget_ended", table))
    [written] = _pauses(connection, table, "pause", parameters)
    if written not in read_pauses(connection, table):
        raise ConfigError(
            f"the pause would end at {written.until and time_text(written.until)}, which is not in the future"
        )
    return written


def check_pause(target: PauseTarget, until: datetime | timedelta | None) -> None:
    """Raise ConfigError for an invalid target, and for an end that no pause can have."""
    target.check()
    if isinstance(until, timedelta) and not timedelta(0) < until <= _LONGEST:
        raise ConfigError(f"a pause of {until} is not possible; its length is more than 0 and at most a hundred years")
    if isinstance(until, datetime) and until >= _LATEST:
        raise ConfigError(
            f"the pause would end at {time_text(until)}; leave the end out for a pause until it is resumed"
        )


def resume(url: str, table: TableName, target: PauseTarget | None) -> list[Pause]:
    """End the pause of exactly this target, or of None every pause; those that were in force."""
    with pausing(url, table, "resuming") as connection:
        return resume_within(connection, table, target)


def resume_within(connection: Connection, table: TableName, target: PauseTarget | None) -> list[Pause]:
    """As ``resume``, in a transaction of ``pausing``."""
    scope, name = target or (None, None)
    return _pauses(connection, table, "resume", {"scope": scope, "name": name})


@contextmanager
def pausing(url: str, table: TableName, doing: str) -> Iterator[Connection]:
    """One short transaction in which pauses are written. Raises StorageBusy when their table is locked, too."""
    with _operating(url, table, doing, _RIGHTS) as connection, short_transaction(connection):
        yield connection


def _operating(url: str, table: TableName, doing: str, rights: str) -> AbstractContextManager[Connection]:
    return operating_beside(url, table, doing, "pause", pauses_of(table), rights)


def _pauses(connection: Connection, table: TableName, name: str, parameters: Mapping[str, object]) -> list[Pause]:
    return [pause_of(row) for row in fetch(connection, pause_statement(name, table), parameters)]
