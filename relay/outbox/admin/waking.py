"""Do wake-ups reach a relay? Found by sending one, on a channel that no relay listens on."""

from __future__ import annotations

from typing import Final

from openoutbox import uuid7
from relay.core.errors import OutboxError
from relay.core.finding import Finding, Level
from relay.outbox.admin.connection import fetch, operating
from relay.outbox.table_check import creation
from relay.outbox.wakeup import CHANNEL
from relay.postgres.connect import connect
from relay.postgres.operating import OPERATOR
from relay.postgres.sql import TableName, statement, without_parameters
from relay.postgres.url import connection_parameters

_SUBJECT: Final = "wake-up"
_ARRIVES_WITHIN: Final = 1.0  # seconds


def check_wake_ups(url: str, table: TableName) -> list[Finding]:
    """Whether the table announces inserts, and a connection of its own, as a relay has one, hears of them."""
    channel = f"openoutbox_check_{uuid7().hex}"
    try:
        with operating(url, table, "checking wake-ups") as connection:
            [(_, has_trigger)] = fetch(connection, statement("outbox/wake:channel"), {"table": table.quoted})
            if not has_trigger:
                message = f"WAKE_UP is on, but table {table} has no wake-up trigger: relays poll"
                return [Finding(Level.WARNING, _SUBJECT, message, f"run: {creation(table)} --with wake-up")]
            with connect(connection_parameters(url, OPERATOR)) as listener:
                listener.execute(without_parameters(statement("outbox/wake:listen", names={CHANNEL: channel})))
                fetch(connection, statement("outbox/wake:announce"), {"channel": channel})
                arrived = list(listener.notifies(timeout=_ARRIVES_WITHIN, stop_after=1))
    except OutboxError as error:
        return [Finding(Level.ERROR, "database", str(error), "fix this, then run relay-cli check again")]
    if arrived:
        return [Finding(Level.OK, _SUBJECT, "WAKE_UP is on, the table has its trigger, and notifications arrive")]
    message = "WAKE_UP is on, but no notification arrives: a pooler in transaction mode stands between; relays poll"
    advice = "let STORAGE_URL name the server itself, or a pool in session mode, or turn WAKE_UP off"
    return [Finding(Level.WARNING, _SUBJECT, message, advice)]
