"""One event is changed as its status allows, once for a key, and the change is recorded with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from relay.core.errors import SchemaError, StorageBusy
from relay.outbox.admin.actions import Action, ActionRefused, EventAction, EventMissing, EventMoved, change_event
from relay.outbox.admin.changes import ChangeState, KeyReused, RecordMissing, Request, list_changes, show_change
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row, give_rights

TABLE = TableName()
REQUEST = Request("ann", "key-1", "asked by support")


@pytest.fixture
def outbox(outbox: Outbox) -> Outbox:
    """With the record of changes, and the rights that the console needs."""
    add_extension(outbox.owner_url, TABLE, "console")
    with outbox.database.connect() as connection:
        give_rights(connection)
        connection.execute("GRANT DELETE ON openoutbox_events TO openoutbox_console")
    return outbox


def event(outbox: Outbox, assignments: str = "status = status") -> UUID:
    """One event, changed by hand."""
    [id_] = outbox.insert([Row("t")])
    outbox.database.run(f"UPDATE openoutbox_events SET {assignments} WHERE event_id = '{id_}'")
    return UUID(id_)


LATER = "available_at = now() + interval '1 hour'"
RETRYING = f"attempts = 3, last_error = 'E: x', {LATER}"
DEAD = "status = 'DEAD', attempts = 25, last_error = 'E: x'"
DELIVERED = "status = 'DELIVERED', delivered_at = now()"
HELD = "status = 'DELIVERING', locked_by = 'r', locked_at = now()"


@pytest.mark.parametrize(
    ("action", "state", "status", "attempts", "error"),
    [
        (Action.RETRY, RETRYING, "PENDING", 3, "E: x"),
        (Action.RETRY, LATER, "PENDING", 0, None),
        (Action.REPLAY, DEAD, "PENDING", 0, None),
        (Action.REPLAY, DELIVERED, "PENDING", 0, None),
        (Action.BURY, RETRYING, "DEAD", 3, "BURIED: by ann: asked by support"),
        (Action.BURY, "status = status", "DEAD", 0, "BURIED: by ann: asked by support"),
    ],
)
def test_an_action_changes_the_event_and_is_recorded(
    outbox: Outbox, action: Action, state: str, status: str, attempts: int, error: str | None
) -> None:
    id_ = event(outbox, state)
    change, new = change_event(outbox.url_of("console"), TABLE, EventAction(action, id_), REQUEST)
    assert new
    row = outbox.row(str(id_))
    assert (row["status"], row["attempts"], row["last_error"]) == (status, attempts, error)
    assert row["delivered_at"] is None
    if status == "PENDING":
        assert row["available_at"] == row["updated_at"]
    outbox.check_invariants()
    recorded = show_change(outbox.url_of("console"), TABLE, change.change_id)
    assert recorded is not None
    assert recorded[1:7] == (action, f'{{"event_id": "{id_}"}}', "ann", "asked by support", ChangeState.COMPLETE, 1)


@pytest.mark.parametrize(
    ("action", "state", "message"),
    [
        (Action.RETRY, "status = status", "it is already due"),
        (Action.RETRY, DEAD, "only a waiting event can be retried"),
        (Action.REPLAY, RETRYING, "only a delivered or dead event can be replayed"),
        (Action.BURY, DEAD, "only a waiting event can be buried"),
        (Action.CANCEL, DEAD, "only a waiting event can be cancelled"),
        (Action.CANCEL, DELIVERED, "only a waiting event can be cancelled"),
        *((action, HELD, "is DELIVERING") for action in Action),
    ],
)
def test_an_action_that_the_status_does_not_allow_changes_and_records_nothing(
    outbox: Outbox, action: Action, state: str, message: str
) -> None:
    id_ = event(outbox, state)
    before = outbox.row(str(id_))
    with pytest.raises(ActionRefused, match=message):
        change_event(outbox.url_of("console"), TABLE, EventAction(action, id_), REQUEST)
    assert outbox.row(str(id_)) == before
    assert list_changes(outbox.url_of("console"), TABLE, 10) == []


@pytest.mark.parametrize(
    ("state", "sent"), [(LATER, 0), ("status = status", 0), (RETRYING, 1), ("updated_at = clock_timestamp()", 1)]
)
def test_a_cancelled_event_is_gone_and_its_row_is_kept(outbox: Outbox, state: str, sent: int) -> None:
    id_ = event(outbox, state)
    before = outbox.row(str(id_))
    change, _ = change_event(outbox.url_of("console"), TABLE, EventAction(Action.CANCEL, id_), REQUEST)
    assert outbox.counts() == {}
    assert (change.events, change.state, change.may_have_been_sent) == (1, ChangeState.COMPLETE, sent)
    columns = ("event_id", "event_type", "payload", "attempts", "created_at", "available_at")
    [(change_id, maybe, *kept)] = outbox.database.run(
        f"SELECT change_id, may_have_been_sent, {', '.join(columns)} FROM openoutbox_cancelled"
    )
    assert (change_id, maybe) == (change.change_id, bool(sent))
    assert kept == [before[name] for name in columns]
    again, new = change_event(outbox.url_of("console"), TABLE, EventAction(Action.CANCEL, id_), REQUEST)
    assert (again, new) == (change, False)


def test_cancelling_needs_the_right_to_delete(outbox: Outbox) -> None:
    id_ = event(outbox, LATER)
    outbox.database.run("REVOKE DELETE ON openoutbox_events FROM openoutbox_console")
    with pytest.raises(SchemaError, match=r"GRANT SELECT, UPDATE .*, DELETE ON"):
        change_event(outbox.url_of("console"), TABLE, EventAction(Action.CANCEL, id_), REQUEST)
    assert outbox.counts() == {"PENDING": 1}
    assert list_changes(outbox.url_of("console"), TABLE, 10) == []


@pytest.mark.parametrize(
    ("action", "returned"),
    [
        (Action.CANCEL, "NULL"),
        (Action.RETRY, "NULL"),
        (Action.RETRY, "OLD"),
        (Action.BURY, "NULL"),
        (Action.BURY, "OLD"),
    ],
)
def test_an_event_that_the_database_keeps_stays_and_nothing_is_recorded(
    outbox: Outbox, action: Action, returned: str
) -> None:
    id_ = event(outbox, LATER)
    outbox.database.run(f"CREATE FUNCTION keep() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN {returned}; END'")
    outbox.database.run(
        "CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION keep()"
    )
    with pytest.raises(ActionRefused, match="keeps it"):
        change_event(outbox.url_of("console"), TABLE, EventAction(action, id_), REQUEST)
    assert outbox.counts() == {"PENDING": 1}
    assert outbox.database.run("SELECT count(*) FROM openoutbox_cancelled") == [(0,)]
    assert list_changes(outbox.url_of("console"), TABLE, 10) == []


def test_a_record_of_an_earlier_version_is_shown_and_cancels_nothing(outbox: Outbox) -> None:
    id_ = event(outbox, LATER)
    change_event(outbox.url_of("console"), TABLE, EventAction(Action.RETRY, id_), REQUEST)
    outbox.database.run("ALTER TABLE openoutbox_changes DROP COLUMN may_have_been_sent")
    outbox.database.run("DROP TABLE openoutbox_cancelled")
    [change] = list_changes(outbox.url_of("console"), TABLE, 10)
    assert change.may_have_been_sent is None
    other = Request("ann", "key-2")
    with pytest.raises(RecordMissing, match="migrate --table openoutbox_events --with console"):
        change_event(outbox.url_of("console"), TABLE, EventAction(Action.CANCEL, id_), other)
    assert outbox.counts() == {"PENDING": 1}


def test_a_key_makes_a_change_happen_once(outbox: Outbox) -> None:
    id_ = event(outbox, DEAD)
    first, new = change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_), REQUEST)
    outbox.database.run(f"UPDATE openoutbox_events SET {DEAD}")
    again, repeated = change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_), REQUEST)
    assert (new, repeated, again.change_id) == (True, False, first.change_id)
    assert outbox.counts() == {"DEAD": 1}
    with pytest.raises(KeyReused, match="key-1"):
        change_event(outbox.url_of("console"), TABLE, EventAction(Action.BURY, id_), REQUEST)
    other = Request("bob", "key-1", "asked by support")
    assert change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_), other)[1]
    assert [change.changed_by for change in list_changes(outbox.url_of("console"), TABLE, 10)] == ["bob", "ann"]


def test_an_event_that_was_changed_meanwhile_is_left_alone(outbox: Outbox) -> None:
    id_ = event(outbox, DEAD)
    seen: Any = outbox.row(str(id_))["updated_at"]
    outbox.database.run("UPDATE openoutbox_events SET updated_at = clock_timestamp()")
    with pytest.raises(EventMoved, match="look at it again"):
        change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_, seen), REQUEST)
    now: Any = outbox.row(str(id_))["updated_at"]
    change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_, now.astimezone(UTC)), REQUEST)
    assert outbox.counts() == {"PENDING": 1}


def test_what_is_missing_or_locked_is_said(outbox: Outbox) -> None:
    with pytest.raises(EventMissing, match="there is no event"):
        change_event(outbox.url_of("console"), TABLE, EventAction(Action.BURY, uuid4()), REQUEST)
    id_ = event(outbox, DEAD)
    with outbox.database.connect(autocommit=False) as holder:
        holder.execute("SELECT 1 FROM openoutbox_events FOR UPDATE")
        with pytest.raises(StorageBusy):
            change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_), REQUEST)
    outbox.database.run("REVOKE INSERT ON openoutbox_changes FROM openoutbox_console")
    with pytest.raises(RecordMissing, match="GRANT SELECT, INSERT, UPDATE ON"):
        change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_), REQUEST)
    outbox.database.run("DROP TABLE openoutbox_changes")
    with pytest.raises(RecordMissing, match="relay-cli migrate --table openoutbox_events --with console"):
        change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_), REQUEST)
    assert outbox.counts() == {"DEAD": 1}


def test_a_change_without_progress_counts_as_interrupted(outbox: Outbox) -> None:
    id_ = event(outbox, DEAD)
    change, _ = change_event(outbox.url_of("console"), TABLE, EventAction(Action.REPLAY, id_), REQUEST)
    outbox.database.run("UPDATE openoutbox_changes SET state = 'running', updated_at = now() - interval '3 minutes'")
    recorded = show_change(outbox.url_of("console"), TABLE, change.change_id)
    assert recorded is not None
    assert recorded.state == ChangeState.INTERRUPTED
    assert recorded.started_at < datetime.now(UTC)  # type: ignore[operator]
