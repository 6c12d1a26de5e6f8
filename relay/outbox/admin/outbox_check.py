"""Is the outbox fit for a relay? Looks at server, table, indexes, rights and clock; changes nothing.

Raises nothing of ``relay.core.errors``: whatever is wrong is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from openoutbox.schema import index_name
from relay.core.durations import format_duration, in_words
from relay.core.errors import OutboxError, SchemaError
from relay.core.finding import Finding, Level
from relay.outbox import order_sequence
from relay.outbox.admin.connection import Connection, Moment, database_time, fetch, operating, rows
from relay.outbox.admin.grants import grant_sql, hidden_rows, lacking_rights
from relay.outbox.admin.modes import mode_finding
from relay.outbox.admin.table_kind import kind_findings
from relay.outbox.extensions import ORDER_INDEXES, pauses_of, relays_of
from relay.outbox.migrate import plan
from relay.outbox.order_sequence import OrderSequence
from relay.outbox.outbox_options import application_name
from relay.outbox.table_check import (
    DELETE_RIGHT,
    FAN_OUT_COLUMN,
    FAN_OUT_RIGHT,
    NOT_RECORDED,
    OLDEST_POSTGRESQL,
    ORDER_COLUMN,
    READ_RIGHT,
    UPDATE_RIGHT,
    WRITTEN,
    creation,
)
from relay.postgres.grants import NO_PRIVILEGE, bare, grant_on
from relay.postgres.sql import LONGEST_IDENTIFIER, TableName, one_line, quote_identifier, statement
from relay.postgres.url import connection_parameters

NO_DATABASE: Final = "check that the server runs and that STORAGE_URL is right"
"""The advice where no connection is possible."""
SAMPLE: Final = 10_000
"""Waiting events whose types are looked at."""

_DOING: Final = "checking"
_LONGEST_SKEW: Final = 5.0  # seconds
_DAY: Final = 86_400.0  # seconds
_LATE: Final = 6 * 3600.0  # seconds; prune runs hourly
_RECLAIMED_WITHIN: Final = (
    600.0  # seconds in which a reclaimed lease counts; before a change of the variable it does not
)
_NAMED: Final[dict[str, object]] = {"prefix": application_name(""), "longest": LONGEST_IDENTIFIER}
"""By which the connections of relays are known."""
_ONE_LEASE: Final = (
    "set the same LEASE_TIMEOUT for every relay on this table; docs/operate/running.md says how to change it"
)
_REAPED_WITHIN: Final = 15.0  # seconds after its expiry; by then a relay with this LEASE_TIMEOUT has reclaimed it


def check_storage(
    url: str,
    table: TableName,
    lease_timeout: float,
    *,
    retention: float,
    in_order: bool = False,
    delete_delivered: bool = False,
    fan_out: Level | None = None,
    dated: Sequence[str] = (),
) -> tuple[list[Finding], list[str] | None]:
    """The findings, and the event types that wait for a destination; None when they could not be read.

    ``lease_timeout`` is LEASE_TIMEOUT in seconds. ``in_order`` says that ORDERING is ``key``, ``delete_delivered`` that
    ON_DELIVERED is ``delete``: each needs more. ``fan_out`` is how bad it is to be without the extension fan-out.
    ``retention`` is the age in seconds up to which prune retains delivered events. ``dated`` says what of the messages
    has a time that receivers may refuse.
    """
    findings = list(schema_findings(url, table))
    if any(finding.level is Level.ERROR for finding in findings):
        return findings, None
    try:
        with operating(url, table, _DOING) as connection:
            findings += [writable(connection), _clock(connection, dated)]
            findings += _rights(connection, table, delete_delivered=delete_delivered)
            for look in (hidden_rows, kind_findings, _refusing_indexes, _prepared_transactions):
                findings += look(connection, table)
            findings += _beside(connection, table)
            findings += _order(connection, table) if in_order else ()
            findings += [_fan_out(connection, table, fan_out)] if fan_out is not None else ()
            findings.append(mode_finding(connection, table, delete_delivered=delete_delivered))
            findings += _times(connection, table, lease_timeout)
            findings.append(prune_delay(connection, table, retention))
            types = [name for (name,) in rows(connection, "outbox/backlog:pending_types", table, {"sample": SAMPLE})]
    except OutboxError as error:
        broken = Finding(Level.ERROR, "database", str(error), "fix this, then run relay-cli check again")
        return [*findings, broken], None
    return findings, types


def schema_findings(url: str, table: TableName) -> Iterator[Finding]:
    """Compare table, columns and indexes with the contract's."""
    create = f"run: {creation(table)}"
    try:
        migration = plan(url, table)
    except SchemaError as error:
        yield Finding(Level.ERROR, "table", str(error), _remedy(error, url, table))
        return
    except OutboxError as error:
        yield Finding(Level.ERROR, "database", str(error), NO_DATABASE)
        return
    if not migration.live:
        yield Finding(Level.ERROR, "table", f"there is no table {table}", create)
        return
    yield Finding(Level.OK, "table", f"{table} is a plain table with the contract's columns")
    for step in migration.steps:
        yield Finding(Level.WARNING, "indexes", f"index {step.creates} is missing", f"{create}, or: {bare(step.sql)}")
    if migration.up_to_date:
        yield Finding(Level.OK, "indexes", "all six indexes exist")


def _remedy(error: SchemaError, url: str, table: TableName) -> str:
    if error.sqlstate != NO_PRIVILEGE or table.schema is None:
        return "change the table by hand so that it matches the contract"
    user = str(connection_parameters(url, "").get("user", "this user"))
    return f"run: GRANT USAGE ON SCHEMA {quote_identifier(table.schema)} TO {quote_identifier(user)}"


def has_table(connection: Connection, table: TableName) -> bool:
    """Whether there is such a table."""
    return bool(fetch(connection, statement("outbox/table:describe"), {"table": table.quoted}))


def _beside(connection: Connection, table: TableName) -> Iterator[Finding]:
    """The relay's rights on the tables of the extensions, where they exist."""
    user = connection.info.user
    if has_table(connection, pauses_of(table)):
        yield from lacking_rights(connection, grant_sql("relay_pauses", table, user), user)
    if has_table(connection, relays_of(table)):
        yield from lacking_rights(connection, grant_sql("relay_relays", table, user), user)
    for name in ("relay_series", "relay_replays"):
        yield from lacking_rights(connection, grant_sql(name, table, user), user, where_it_exists=True)


def _refusing_indexes(connection: Connection, table: TableName) -> Iterator[Finding]:
    """Indexes that are not the contract's, by which an application's insert may skip an event."""
    for (name,) in fetch(connection, statement("outbox/table:refusing_indexes"), {"table": table.quoted}):
        message = (
            f"index {name} may refuse a row with a new event_id: the client's insert then skips the event without an "
            "error, and does not count it as new"
        )
        yield Finding(Level.WARNING, "indexes", message, f"drop index {name}, unless that is what it is for")


def _order(connection: Connection, table: TableName) -> Iterator[Finding]:
    """The column and the indexes of ORDERING=key."""
    advice = f"run: {creation(table)} --with key-order"
    sql = statement("outbox/table:describe")
    [(_, _, columns, *_)] = fetch(connection, sql, {"table": table.quoted})
    if ORDER_COLUMN not in columns:
        yield Finding(Level.ERROR, "order", f"there is no column {ORDER_COLUMN}, and ORDERING=key needs it", advice)
        return
    names = [index_name(table, role) for role in ORDER_INDEXES]
    parameters: dict[str, object] = {"table": table.quoted, "names": names}
    valid = dict(fetch(connection, statement("outbox/table:order_indexes"), parameters))
    for name in names:
        if name not in valid:
            yield Finding(Level.ERROR, "order", f"index {name} is missing, and ORDERING=key is slow without it", advice)
        elif not valid[name]:
            first = f"drop it, then {advice}"
            yield Finding(
                Level.ERROR, "order", f"index {name} is invalid: its creation failed or is still running", first
            )
    if all(valid.get(name) for name in names):
        yield Finding(Level.OK, "order", f"the column {ORDER_COLUMN} and its indexes exist")
    parameters = {"table": table.quoted, "sample": order_sequence.SAMPLE}
    [row] = rows(connection, "outbox/backlog:order_sequence", table, parameters)
    sequence = OrderSequence(*row)
    if sequence.is_behind:
        yield Finding(Level.ERROR, "order", sequence.problem, sequence.remedy(table))


def _prepared_transactions(connection: Connection, table: TableName) -> Iterator[Finding]:
    """The trigger of wake-ups, and applications that prepare their transactions: the one makes the other fail."""
    [(most, has_trigger)] = fetch(connection, statement("outbox/wake:prepared_transactions"), {"table": table.quoted})
    if not most:
        return
    message = (
        f"max_prepared_transactions is {most}, and PREPARE TRANSACTION fails after an insert with wake-ups (0A000)"
    )
    if has_trigger:
        advice = "where applications use two-phase commit, drop the trigger openoutbox_wake_trigger"
        yield Finding(Level.WARNING, "wake-up", f"{message}: the table has the trigger of wake-ups", advice)
    else:
        yield Finding(Level.OK, "wake-up", f"{message}: do not add it where applications use two-phase commit")


def _fan_out(connection: Connection, table: TableName, level: Level) -> Finding:
    """The column that remembers which of several destinations have acknowledged an event."""
    [(_, _, columns, writable, _)] = fetch(connection, statement("outbox/table:describe"), {"table": table.quoted})
    if FAN_OUT_COLUMN in (writable or ()):
        return Finding(Level.OK, "fan-out", f"the column {FAN_OUT_COLUMN} exists")
    again = "KAFKA_TRANSACTIONS needs it" if level is Level.ERROR else NOT_RECORDED
    if FAN_OUT_COLUMN in columns:
        user = connection.info.user
        grant = f"run: {grant_on(FAN_OUT_RIGHT, table, user)}, then restart the relay"
        return Finding(level, "fan-out", f"{user} may not write {FAN_OUT_COLUMN}: {again}", grant)
    advice = f"run: {creation(table)} --with fan-out, grant the relay UPDATE ({FAN_OUT_COLUMN}), then restart it"
    return Finding(level, "fan-out", f"there is no column {FAN_OUT_COLUMN}: {again}", advice)


def _times(connection: Connection, table: TableName, lease_timeout: float) -> Iterator[Finding]:
    """Rows whose times are wrong, or show that a relay is."""
    yield from _broken_rows(connection, table)
    yield from _times_ahead(connection, table)
    yield from _early_reclaims(connection, table, lease_timeout)
    yield from _held_leases(connection, table, lease_timeout)


def _broken_rows(connection: Connection, table: TableName) -> Iterator[Finding]:
    """Rows that no relay writes: an application wrote columns that are the relay's."""
    [counts] = rows(connection, "outbox/backlog:broken_rows", table, {"most": SAMPLE})
    wrong = "a status that does not go with their"
    faults = (f"{wrong} locked_by and locked_at", f"{wrong} delivered_at", "attempts below zero")
    if said := ", ".join(f"{count} rows have {fault}" for count, fault in zip(counts, faults, strict=True) if count):
        advice = (
            "no relay writes such rows: let applications insert event_id, event_type, payload, partition_key, headers "
            "and available_at alone; docs/operate/trust.md says how"
        )
        yield Finding(Level.WARNING, "rows", said, advice)


def _times_ahead(connection: Connection, table: TableName) -> Iterator[Finding]:
    """Rows of the future: the database's clock was set back, or a failover led to a host whose clock is behind."""
    for column, count, seconds in rows(connection, "outbox/backlog:times_ahead", table, {"most": SAMPLE}):
        advice = "the database's clock was set back, or is wrong: synchronize it by NTP, on every server that may lead"
        waits = "a relay reclaims each once it has not changed for LEASE_TIMEOUT"
        if column == "created_at":
            waits = "no relay claims an event before its available_at"
            advice += f"; to send them now, run: {one_line('outbox/lease:due_now', table)}"
        message = f"{count} rows have a {column} up to {seconds:.0f} s ahead of the database's clock: {waits}"
        yield Finding(Level.WARNING, "clock", message, advice)


def _early_reclaims(connection: Connection, table: TableName, lease_timeout: float) -> Iterator[Finding]:
    """Leases that were reclaimed too early: a relay on the table has a shorter LEASE_TIMEOUT."""
    own = f"LEASE_TIMEOUT={format_duration(lease_timeout)}"
    parameters: dict[str, object] = {"sample": SAMPLE, "seconds": _RECLAIMED_WITHIN}
    reclaims = rows(connection, "outbox/backlog:recent_reclaims", table, parameters)
    ages = [age for message, at in reclaims if (age := _seconds_held(message, at)) is not None]
    if early := [age for age in ages if age < lease_timeout]:
        message = (
            f"{len(early)} leases were reclaimed in the last {format_duration(_RECLAIMED_WITHIN)}, the first at most "
            f"{min(early):.1f} s after its claim or renewal, before {own} had passed: another relay has a shorter one"
        )
        yield Finding(Level.WARNING, "lease", message, f"{_ONE_LEASE}; after a change, check again later")


def _held_leases(connection: Connection, table: TableName, lease_timeout: float) -> Iterator[Finding]:
    """Leases that were not renewed: of a relay with a longer LEASE_TIMEOUT, or of one that has ended."""
    own = f"LEASE_TIMEOUT={format_duration(lease_timeout)}"
    parameters: dict[str, object] = {"seconds": lease_timeout / 2, "sample": SAMPLE} | _NAMED
    for relay_id, events, seconds, connected in rows(connection, "outbox/backlog:held_beyond", table, parameters):
        held = f"{events} events up to {seconds:.1f} s after their claim or renewal"
        if connected and seconds > lease_timeout + _REAPED_WITHIN:
            message = (
                f"relay {relay_id} is connected and holds {held}, and {own} is shorter: this relay would reclaim them "
                "and send them twice"
            )
            yield Finding(Level.WARNING, "lease", message, _ONE_LEASE)
        elif not connected:  # a relay that works renews a lease after a third of its time
            message = (
                f"relay {relay_id} holds {held}, and has no connection of its name: it has ended, or lost the "
                f"database. Another relay sends them again once {own} has passed"
            )
            yield Finding(Level.WARNING, "lease", message, "wait, with a relay running; its log says how it ended")


def _seconds_held(message: str, reclaimed_at: Moment) -> float | None:
    """Seconds from the claim or renewal, with which the reaper's message ends; None for another message."""
    _, end, text = message.rpartition(" claimed or renewed at ")
    try:
        locked_at = datetime.fromisoformat(text) if end else None
    except ValueError:
        return None
    if locked_at is None or locked_at.tzinfo is None or not isinstance(reclaimed_at, datetime):
        return None
    return (reclaimed_at - locked_at).total_seconds()


def prune_delay(connection: Connection, table: TableName, retention: float) -> Finding:
    """Compare the oldest delivered event with what prune retains, as the alert OutboxNotPruned does."""
    with connection.transaction():
        connection.execute(statement("outbox/claim:guard"))
        [(age,)] = rows(connection, "outbox/backlog:oldest_delivered_age", table, {})
    retained = f"prune retains {retention / _DAY:g} days"
    if age <= retention + _LATE:
        return Finding(Level.OK, "prune", f"{retained}, and no delivered event is much older")
    message = f"the oldest delivered event is {age / _DAY:.1f} days old, and {retained}: it does not run, or fails"
    advice = (
        "read the prune job's log, and run relay-cli check --for prune as its user; --delivered-age for another age"
    )
    return Finding(Level.WARNING, "prune", message, advice)


def writable(connection: Connection) -> Finding:
    """Whether the server takes writes."""
    [(read_only,)] = fetch(connection, statement("session:ping"), {})
    if read_only:
        advice = "let STORAGE_URL name the primary, or all servers with target_session_attrs=read-write"
        return Finding(Level.ERROR, "database", "the server refuses writes: it is a standby, or set read-only", advice)
    return version_finding(connection.info.server_version)


def version_finding(version: int) -> Finding:
    """Whether this is tested with the server's version, as libpq numbers it."""
    shown = f"PostgreSQL {version // 10_000}.{version % 10_000}"
    if version < OLDEST_POSTGRESQL * 10_000:
        advice = f"use PostgreSQL {OLDEST_POSTGRESQL} or newer"
        return Finding(Level.ERROR, "database", f"{shown} is not supported", advice)
    return Finding(Level.OK, "database", f"{shown} answers and takes writes")


def _clock(connection: Connection, dated: Sequence[str]) -> Finding:
    before = datetime.now(UTC)
    theirs = database_time(connection)
    ours = before + (datetime.now(UTC) - before) / 2
    skew = (theirs - ours).total_seconds()
    if abs(skew) > _LONGEST_SKEW:
        message = f"this host's clock is {abs(skew):.1f} s {'behind' if skew > 0 else 'ahead of'} the database's"
        if dated:
            message += f". Receivers refuse a time that is minutes off: {'; '.join(dated)}"
        advice = "synchronize both clocks by NTP; the database's times deliveries, this host's logs and latencies"
        return Finding(Level.WARNING, "clock", message, advice)
    return Finding(Level.OK, "clock", f"within {in_words(_LONGEST_SKEW)} of the database's")


def _rights(connection: Connection, table: TableName, *, delete_delivered: bool) -> Iterator[Finding]:
    sql = statement("outbox/table:describe")
    [(_, may_select, _, writable, may_delete)] = fetch(connection, sql, {"table": table.quoted})
    user = connection.info.user
    denied = [name for name in WRITTEN if name not in (writable or ())]
    if not may_select:
        yield Finding(Level.ERROR, "rights", f"{user} may not read it", f"run: {grant_on(READ_RIGHT, table, user)}")
    if denied:
        grant = f"run: {grant_on(UPDATE_RIGHT, table, user)}"
        yield Finding(Level.ERROR, "rights", f"{user} may not write {', '.join(denied)}", grant)
    lacks_delete = delete_delivered and not may_delete
    if lacks_delete:
        grant = f"run: {grant_on(DELETE_RIGHT, table, user)}"
        yield Finding(Level.ERROR, "rights", f"{user} may not delete rows, and ON_DELIVERED=delete needs it", grant)
    if may_select and not denied and not lacks_delete:
        yield Finding(Level.OK, "rights", f"{user} may read the table and write what a relay writes")
