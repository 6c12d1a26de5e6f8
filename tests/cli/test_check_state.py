"""``relay-cli check`` looks at what has become of events, and tries what a relay relies on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import sqlalchemy

from openoutbox import Message, inbox
from relay.core.finding import Level
from relay.core.pause import PauseScope, PauseTarget
from relay.inbox.table import create
from relay.outbox.admin.pause import pause
from relay.outbox.admin.waking import check_wake_ups
from relay.outbox.extensions import add_extension
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.cli.running import call_cli
from tests.cli.test_check import check
from tests.support.fixtures.outbox import Outbox, give_rights, through


def test_events_that_are_dead_are_counted(outbox: Outbox, tmp_path: Path) -> None:
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout"}
    assert "dead" not in check(tmp_path, variables)
    outbox.fill("t", 3)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DEAD'")
    [(level, message, advice)] = check(tmp_path, variables)["dead"]
    assert (level, message) == ("warning", "3 events are dead; all died in the last hour, of type t.")
    assert "relay-cli causes" in advice
    check(tmp_path, variables, "--strict", status=1)


_REPORT = """
INSERT INTO openoutbox_relays (
    instance, relay_id, version, host, state, reason, destination_type, destination, lease_timeout, ordering,
    on_delivered
) VALUES (gen_random_uuid(), 'relay-0', '1.0', 'host', 'paused', %s, 'kafka', 'ab12', 60, 'none', 'keep')
"""
_AWAY = "destination kafka is away since 2026-03-10T11:00:00Z: no broker"
_REFUSES = "the database refuses to claim event 0190b0a0-0000-7000-8000-000000000001: NO: check"


def test_what_is_broken_is_found_in_the_words_of_causes(outbox: Outbox, tmp_path: Path) -> None:
    for extension in ("pause", "fleet"):
        add_extension(outbox.owner_url, TableName(), extension)
    create(outbox.owner_url, TableName(DEFAULT_INBOX), ["dead-letters"])
    with outbox.database.connect() as connection:
        give_rights(connection)
    outbox.fill("t", 2)
    outbox.database.run(
        "UPDATE openoutbox_events SET attempts = 1, last_error = 'E: x', available_at = now() + interval '1 hour'"
    )
    outbox.database.run(_REPORT, [f"{_AWAY}; {_REFUSES}"])
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout"}
    found = check(tmp_path, variables, status=1)
    assert found["destination"][0][:2] == ("error", f"D{_AWAY[1:]}, according to relay-0.")
    assert found["rows"][0][0] == "error"
    assert found["retrying"][0][:2] == ("warning", "2 events wait for the next attempt after a failure.")
    pause(outbox.owner_url, TableName(), PauseTarget(PauseScope.TYPE, "t"), who="ada", reason="repair")
    inbox.set_aside(outbox.database.connect, Message("1", "t", None, b"{}", {}), ValueError("no"), consumer="billing")
    outbox.database.run("GRANT SELECT ON openoutbox_inbox_tries TO test_relay")
    found |= check(tmp_path, variables, status=1)
    assert re.fullmatch(r"Event type t is paused by ada since \S+Z: repair\.", found["pause"][0][1])
    assert found["inbox"][0][1].startswith("Consumer billing has 1 dead letter")
    causes = json.loads(call_cli(tmp_path, "causes", "--json", STORAGE_URL=outbox.relay_url).stdout)["findings"]
    assert {one["subject"] for one in causes} == {"relays", "pause", "destination", "rows", "retrying", "inbox"}
    for one in causes:
        if one["subject"] != "relays":  # check runs before a relay starts
            assert [(one["level"], one["message"], one["advice"])] == found[one["subject"]]


def test_events_that_wait_for_the_first_relay_are_no_fault_of_its_environment(outbox: Outbox, tmp_path: Path) -> None:
    outbox.fill("t", 1)
    outbox.database.run("UPDATE openoutbox_events SET available_at = now() - interval '1 hour'")
    assert check(tmp_path, {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout"}).keys() == {"broker"}


def test_a_delivery_log_that_does_not_answer_is_a_warning(outbox: Outbox, tmp_path: Path) -> None:
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout"}
    log = "postgres://u:geheim@127.0.0.1:1/log"
    [(level, message, advice)] = check(tmp_path, {**variables, "DELIVERY_LOG_URL": log})["database"]
    assert level == "warning"
    assert "127.0.0.1" in message
    assert "geheim" not in message
    assert advice == "check that the server runs and that DELIVERY_LOG_URL is right"


def test_without_the_right_to_record_replays_the_grant_is_named(outbox: Outbox, tmp_path: Path) -> None:
    add_extension(outbox.owner_url, TableName(), "replay-audit")
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout"}
    [(level, message, advice)] = check(tmp_path, variables, status=1)["rights"]
    assert level == "error"
    assert message == 'test_relay lacks SELECT on "openoutbox_replays", INSERT on "openoutbox_replays"'
    outbox.database.run(advice.removeprefix("run: "))
    assert "rights" not in check(tmp_path, variables)


def test_wake_ups_are_tried_and_none_arrives_behind_a_pooler(outbox: Outbox, pgbouncer: str, tmp_path: Path) -> None:
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout", "WAKE_UP": "true"}
    [(level, message, advice)] = check(tmp_path, variables)["wake-up"]
    assert (level, message) == (
        "warning",
        "WAKE_UP is on, but table openoutbox_events has no wake-up trigger: relays poll",
    )
    assert advice == "run: relay-cli migrate --table openoutbox_events --with wake-up"
    add_extension(outbox.owner_url, TableName(), "wake-up")
    assert "wake-up" not in check(tmp_path, variables)
    pooled = through(outbox, pgbouncer).relay_url
    [(level, message, _)] = check(tmp_path, {**variables, "STORAGE_URL": pooled})["wake-up"]
    assert level == "warning"
    assert "no notification arrives: a pooler in transaction mode stands between" in message
    assert [one.level for one in check_wake_ups(outbox.relay_url, TableName("absent"))] == [Level.ERROR]


def test_a_redis_database_that_does_not_exist_is_an_error(outbox: Outbox, redis_url: str, tmp_path: Path) -> None:
    url = sqlalchemy.make_url(redis_url).set(database="99").render_as_string(hide_password=False)
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "redis", "PUBLISHER_URL": url}
    [(level, message, _)] = check(tmp_path, variables, status=1)["broker"]
    assert level == "error"
    assert message.endswith("the server refuses the connection: DB index is out of range")


_TRIGGER = """
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER "Soft" BEFORE DELETE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION keep()
"""
_RULE = "CREATE RULE soft AS ON DELETE TO openoutbox_events DO INSTEAD NOTHING"


@pytest.mark.parametrize(("keeps", "what"), [(_TRIGGER, 'trigger "Soft"'), (_RULE, "rule soft")])
def test_what_keeps_rows_from_being_deleted_is_named_and_no_other_relay(
    outbox: Outbox, tmp_path: Path, keeps: str, what: str
) -> None:
    outbox.database.run("GRANT DELETE ON openoutbox_events TO test_relay")
    outbox.database.run(keeps)
    environment = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout", "ON_DELIVERED": "delete"}
    [(level, message, _)] = check(tmp_path, environment)["delivered"]
    assert (level, f"ON_DELIVERED=delete: {what} may keep the row" in message) == ("warning", True)
    outbox.fill("t", 1)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now()")
    [(level, message, advice)] = check(tmp_path, environment)["delivered"]
    assert (level, message.partition(":")[0]) == ("warning", "ON_DELIVERED=delete does not work on this table")
    assert f"kept by {what}" in message
    assert advice == f"drop {what}, or set ON_DELIVERED=keep and prune"
