"""The mode of ON_DELIVERED, and signs that another relay on the table works in the other one.

A row that becomes DELIVERED is the work of a relay with ``keep``. A leased row that is gone a moment later is the work
of a relay with ``delete``: nothing else deletes a row that is DELIVERING. Both show only while events flow. Where a
trigger or a rule for DELETE keeps rows, a relay with ``delete`` makes them DELIVERED, too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from relay.core.durations import in_words
from relay.core.event import Status
from relay.core.finding import Finding, Level
from relay.outbox.admin.connection import Connection, fetch, rows
from relay.postgres.sql import TableName, statement

_RECENTLY: Final = 60.0  # seconds in which a row that became DELIVERED counts
_WATCH: Final = 1.0  # seconds for which leased rows are watched
_STEP: Final = 0.05  # seconds between two looks at them
_SAMPLE: Final = 1000  # leases


def mode_finding(connection: Connection, table: TableName, *, delete_delivered: bool) -> Finding:
    """The mode of this relay, with a warning when another relay shows that it has the other one.

    With ``keep`` this takes up to a second if events are leased just now.
    """
    if delete_delivered:
        return _beside_delete(connection, table)
    message = "ON_DELIVERED=keep: delivered events stay in the table until relay-cli prune deletes them"
    if deleting := deleting_relays(connection, table):
        names = ", ".join(sorted(deleting))
        message += f"; but events leased by relay {names} were deleted: it has ON_DELIVERED=delete"
        return Finding(Level.WARNING, "delivered", message, "set the same ON_DELIVERED for every relay on this table")
    return Finding(Level.OK, "delivered", message)


def _beside_delete(connection: Connection, table: TableName) -> Finding:
    message = "ON_DELIVERED=delete: the row of a delivered event is deleted"
    [(recent,)] = rows(connection, "outbox/backlog:delivered_recently", table, {"seconds": _RECENTLY})
    keepers = fetch(connection, statement("outbox/table:keeps_deleted"), {"table": table.quoted})
    if keepers:
        return _kept([f"{kind} {name}" for kind, name in keepers], recent=recent)
    if not recent:
        return Finding(Level.OK, "delivered", message)
    message += f", but rows became DELIVERED in the last {in_words(_RECENTLY)}: another relay has ON_DELIVERED=keep"
    advice = "set ON_DELIVERED=delete for every relay on this table; after a change of the mode, check again later"
    return Finding(Level.WARNING, "delivered", message, advice)


def _kept(keepers: Sequence[str], *, recent: bool) -> Finding:
    """Triggers or rules are there that may keep what is to be deleted."""
    what = " and ".join(keepers)
    message = f"ON_DELIVERED=delete: {what} may keep the row of a delivered event, which becomes DELIVERED instead"
    if recent:
        message = (
            "ON_DELIVERED=delete does not work on this table: rows became DELIVERED in the last "
            f"{in_words(_RECENTLY)}, kept by {what}, or another relay has ON_DELIVERED=keep"
        )
    return Finding(Level.WARNING, "delivered", message, f"drop {what}, or set ON_DELIVERED=keep and prune")


def deleting_relays(connection: Connection, table: TableName) -> set[str]:
    """The relays whose leased events are deleted while this looks on, for a second at most."""
    holders: dict[str, str] = dict(rows(connection, "outbox/backlog:leases", table, {"sample": _SAMPLE}))
    deadline = time.monotonic() + _WATCH
    while holders:
        statuses = rows(connection, "outbox/backlog:statuses", table, {"ids": list(holders)})
        deleting = {str(holders[event_id]) for event_id, status, _ in statuses if status is None}
        # A released event may have gone to another relay meanwhile.
        holders |= {event_id: relay_id for event_id, _, relay_id in statuses if relay_id is not None}
        leased = any(status == Status.DELIVERING for _, status, _ in statuses)
        if deleting or not leased or time.monotonic() > deadline:
            return deleting
        time.sleep(_STEP)
    return set()
