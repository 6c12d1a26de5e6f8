"""What operators do in histories, each in one statement on the scripted database."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

from relay.core.errors import RowRefused
from relay.core.event import EventId, Status
from relay.core.pause import Pause, PauseTarget
from tests.system.simulation.database import Database


def replay(database: Database, event_ids: Iterable[EventId]) -> None:
    """An operator takes finished events back to PENDING."""
    database.set_clock()
    now = database.table.tick()
    database.table.running = ("the operator", "replay")
    rows = [database.table.rows[one] for one in event_ids if one in database.table.rows]
    finished = [row for row in rows if row.status in (Status.DELIVERED, Status.DEAD)]
    with suppress(RowRefused), database.table.statement(finished):
        for row in finished:
            row.status, row.attempts, row.last_error, row.delivered_at = Status.PENDING, 0, None, None
            row.available_at = row.updated_at = now


def pause(database: Database, target: PauseTarget, seconds: float | None) -> None:
    """An operator pauses events: for that long, or until they are resumed."""
    database.set_clock()
    now = database.table.tick()
    until = None if seconds is None else now + timedelta(seconds=seconds)
    pause = Pause(target, until, "the operator", "", now)
    database.table.pauses.append(pause)
    database.ledger.pauses.set(pause, database.scheduler.now)
    database.ledger.moved_at = database.scheduler.now


def resume(database: Database, target: PauseTarget) -> None:
    """An operator resumes them."""
    database.table.pauses = [pause for pause in database.table.pauses if pause.target != target]
    database.ledger.pauses.resume(target)
    database.ledger.moved_at = database.scheduler.now
