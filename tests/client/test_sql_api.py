"""The functions of ``migrate --with sql-api``, as an application in any language calls them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from openoutbox import create_statements, sql_api_statements
from tests.client.test_left_out import leave_out
from tests.support.fixtures.database import Database
from tests.support.waiting import patience, wait_until

HOSTILE = '{"note": "say \\"hi\\"",  "path": "C:\\\\temp", "n": 12345678901234567890.10, "n": 1}'
EXACT = "SELECT convert_from(payload, 'UTF8'), partition_key, headers, available_at - created_at FROM openoutbox_events"
TOUCHED = "UPDATE openoutbox_events SET updated_at = updated_at + interval '1 s'"
CLAIMED = "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'r', locked_at = now()"


@pytest.fixture
def api(outbox: Database) -> Database:
    for _ in range(2):  # safe to run again
        for statement in sql_api_statements():
            outbox.run(statement)
    return outbox


def call(database: Database, function: str, *values: object, **named: object) -> Any:
    arguments = ["%s"] * len(values) + [f"{name} => %s" for name in named]
    return database.run(f"SELECT openoutbox_{function}({', '.join(arguments)})", [*values, *named.values()])[0][0]


def test_the_text_of_the_json_is_kept_as_given(api: Database) -> None:
    event_id = call(api, "enqueue", "order.placed", HOSTILE)
    assert api.run(EXACT) == [(HOSTILE, None, {}, timedelta(0))]
    assert api.run("SELECT event_id FROM openoutbox_events") == [(event_id,)]


def test_bytes_and_every_argument(api: Database) -> None:
    chosen = {"partition_key": "7", "headers": '{"a": "b"}', "delay": "90 s", "event_id": uuid4()}
    for _ in range(2):  # repeated, it changes nothing
        assert call(api, "enqueue_bytes", "order.placed", b"caf\xc3\xa9", **chosen) == chosen["event_id"]
    assert api.run(EXACT) == [("café", "7", {"a": "b"}, timedelta(seconds=90))]


def test_an_id_that_another_event_has_is_an_error(api: Database) -> None:
    known = call(api, "enqueue", "order.placed", "{}")
    for event_type, payload in (("order.placed", "[]"), ("other", "{}")):
        with pytest.raises(psycopg.errors.UniqueViolation, match=str(known)):
            call(api, "enqueue", event_type, payload, event_id=known)
    assert api.run("SELECT count(*) FROM openoutbox_events") == [(1,)]


def test_an_event_that_a_trigger_leaves_out_is_an_error_and_a_repeat_stays_a_repeat(api: Database) -> None:
    known = call(api, "enqueue", "good", "{}")
    leave_out(api, "openoutbox_events", "NEW.event_type = 'bad'")
    for chosen in ({}, {"event_id": uuid4()}):
        with pytest.raises(psycopg.errors.TriggeredActionException, match=r"left event .* out; let it return NEW"):
            call(api, "enqueue", "bad", "{}", **chosen)
    assert call(api, "enqueue", "good", "{}", event_id=known) == known
    assert api.run("SELECT event_type FROM openoutbox_events") == [("good",)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"event_type": ""}, "event_type: empty"),
        ({"event_type": None}, "event_type: empty"),
        ({"payload": None}, "payload: NULL"),
        ({"headers": '["a"]'}, "headers: no JSON object"),
        ({"headers": "null"}, "headers: no JSON object"),
        ({"delay": "-1 s"}, "delay: negative"),
        ({"delay": "1000000 years"}, "out of range"),
    ],
)
def test_what_no_relay_could_send_is_refused(api: Database, changed: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"event_type": "t", "payload": "{}", **changed}
    with pytest.raises(psycopg.DataError, match=message):
        call(api, "enqueue", **arguments)
    assert api.run(EXACT) == []


def test_cancel_takes_an_event_back_once(api: Database) -> None:
    event_id = call(api, "enqueue", "t", "{}")
    assert call(api, "cancel", event_id) is True
    assert api.run(EXACT) == []
    assert call(api, "cancel", event_id) is False


@pytest.mark.parametrize(
    "state",
    [CLAIMED, "UPDATE openoutbox_events SET status = 'DEAD'", TOUCHED.replace("SET", "SET status = 'DELIVERED',")],
)
def test_what_is_not_waiting_stays(api: Database, state: str) -> None:
    event_id = call(api, "enqueue", "t", "{}")
    api.run(state)
    before = api.run("SELECT * FROM openoutbox_events")
    assert call(api, "cancel", event_id) is False
    assert call(api, "reschedule", event_id, datetime.now(UTC) + timedelta(1)) is False
    assert api.run("SELECT * FROM openoutbox_events") == before


@pytest.mark.parametrize(("state", "said"), [(TOUCHED, ["may_have_been_sent"]), ("SELECT 1", [])])
def test_cancel_says_whether_a_relay_may_have_had_it(api: Database, state: str, said: list[str]) -> None:
    event_id = call(api, "enqueue", "t", "{}")
    api.run(state)
    notices: list[str | None] = []
    with api.connect() as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        assert connection.execute("SELECT openoutbox_cancel(%s)", [event_id]).fetchone() == (True,)
    assert notices == said


def test_who_cancels_beside_a_claim_waits_for_it_and_is_too_late(api: Database) -> None:
    event_id = call(api, "enqueue", "t", "{}")
    with api.connect(autocommit=False) as relay, ThreadPoolExecutor(1) as pool:
        relay.execute(CLAIMED.encode())
        answer = pool.submit(call, api, "cancel", event_id)
        wait_until(api.waiting_for_locks, what="the cancellation to wait")
        relay.commit()
        assert answer.result(patience()) is False


def test_reschedule_gives_another_time_not_before_it_was_created(api: Database) -> None:
    event_id, later = call(api, "enqueue", "t", "{}"), datetime.now(UTC) + timedelta(1)
    assert call(api, "reschedule", event_id, later) is True
    assert api.run("SELECT available_at, updated_at >= created_at FROM openoutbox_events") == [(later, True)]
    for at, message in (
        (later - timedelta(9), "before the event was created"),
        ("infinity", "infinite"),
        (None, "NULL"),
    ):
        with pytest.raises(psycopg.DataError, match=message):
            call(api, "reschedule", event_id, at)
    assert api.run("SELECT available_at FROM openoutbox_events") == [(later,)]


@pytest.mark.parametrize(
    ("happens", "name", "more"),
    [("DELETE", "cancel", ()), ("UPDATE", "reschedule", (datetime(2099, 1, 1, tzinfo=UTC),))],
)
def test_an_event_that_a_trigger_keeps_is_an_error(
    api: Database, happens: str, name: str, more: tuple[object, ...]
) -> None:
    event_id = call(api, "enqueue", "t", "{}")
    api.run(f"""
        CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER kept BEFORE {happens} ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION kept();
    """)
    with pytest.raises(psycopg.errors.TriggeredActionException, match=f"keeps event {event_id}"):
        call(api, name, event_id, *more)
    assert call(api, name, uuid4(), *more) is False


@pytest.fixture
def application(api: Database) -> Iterator[str]:
    """A role that may insert and nothing else."""
    name = f"app_{uuid4().hex[:8]}"
    api.run(f"CREATE ROLE {name}")
    api.run(f"GRANT INSERT ON openoutbox_events TO {name}")
    yield name
    api.run(f"DROP OWNED BY {name}")
    api.run(f"DROP ROLE {name}")


def test_cancelling_is_granted_apart_from_inserting(api: Database, application: str) -> None:
    with api.connect() as connection:
        connection.execute(f"SET ROLE {application}".encode())
        [event_id] = connection.execute("SELECT openoutbox_enqueue('t', '{}')").fetchone() or ()
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="openoutbox_cancel"):
            connection.execute("SELECT openoutbox_cancel(%s)", [event_id])
        api.run(f"GRANT EXECUTE ON FUNCTION openoutbox_cancel(uuid) TO {application}")
        assert connection.execute("SELECT openoutbox_cancel(%s)", [event_id]).fetchone() == (True,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="openoutbox_reschedule"):
            connection.execute("SELECT openoutbox_reschedule(%s, now())", [event_id])


def test_an_application_that_may_compare_is_told_of_another_event(api: Database, application: str) -> None:
    known = call(api, "enqueue", "t", "{}")
    again = f"SELECT openoutbox_enqueue('t', '[]', event_id => '{known}')".encode()
    with api.connect() as connection:
        said: list[str | None] = []
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
        connection.execute(f"SET ROLE {application}".encode())
        connection.execute(again)
        assert said == ["unchecked"]
        api.run(f"GRANT EXECUTE ON FUNCTION openoutbox_same(uuid, text, bytea) TO {application}")
        with pytest.raises(psycopg.errors.UniqueViolation, match=str(known)):
            connection.execute(again)


def test_what_policies_protect_is_not_reached_with_the_owners_rights(api: Database) -> None:
    event_id = call(api, "enqueue", "t", "{}")
    api.run("ALTER TABLE openoutbox_events ENABLE ROW LEVEL SECURITY")
    for function, *more in (("cancel",), ("reschedule", datetime.now(UTC) + timedelta(1))):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            call(api, function, event_id, *more)


def test_the_callers_search_path_leads_to_no_other_table(api: Database) -> None:
    event_id = call(api, "enqueue", "t", "{}")
    with api.connect() as connection:
        connection.execute("CREATE TEMP TABLE openoutbox_events (LIKE public.openoutbox_events INCLUDING ALL)")
        connection.execute(
            "CREATE SCHEMA own; CREATE TABLE own.openoutbox_events (n int); SET search_path = own, public"
        )
        assert connection.execute("SELECT public.openoutbox_cancel(%s)", [event_id]).fetchone() == (True,)
        connection.execute("SELECT public.openoutbox_enqueue('t', '{}')")
    assert len(api.run(EXACT)) == 1


@pytest.mark.parametrize("table", ["Bo'dy $$.we\"ird", "s.e"])
def test_a_table_of_another_name_has_functions_of_its_own(database: Database, table: str) -> None:
    schema, name = table.split(".")
    database.run(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)).as_string())
    for statement in (*create_statements(table), *sql_api_statements(table)):
        database.run(statement)
    with database.connect() as connection:
        event_id = connection.execute(function(schema, name, "enqueue", "'t', '{}'")).fetchone()
        assert connection.execute(function(schema, name, "cancel", "%s"), event_id).fetchone() == (True,)


def function(schema: str, name: str, role: str, arguments: LiteralString) -> sql.Composed:
    return sql.SQL("SELECT {}({})").format(sql.Identifier(schema, f"{name}_{role}"), sql.SQL(arguments))
