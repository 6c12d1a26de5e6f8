"""``relay-cli check`` finds what is wrong, says what to do, and following its advice heals it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy, StreamConfig

from openoutbox import NewEvent, enqueue
from tests.cli.running import call_cli
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.nats import MakeStream
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import Database


def check(folder: Path, variables: dict[str, str], *arguments: str, status: int = 0) -> dict[str, list[Any]]:
    """The findings by subject, without those that are fine: level, message, advice."""
    done = call_cli(folder, "check", "--json", *arguments, **variables)
    assert (done.returncode, done.stderr) == (status, ""), (done.stdout, done.stderr)
    answer = json.loads(done.stdout)
    assert answer["ok"] is (status == 0)
    findings: dict[str, list[Any]] = {}
    for one in answer["findings"]:
        if one["level"] != "ok":
            assert one["advice"]
            findings.setdefault(one["subject"], []).append((one["level"], one["message"], one["advice"]))
    return findings


def test_a_whole_relay_on_kafka_is_fine(outbox: Outbox, kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    outbox.insert([Row(topic())])
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}
    assert check(tmp_path, variables, "--strict") == {}
    lines = call_cli(tmp_path, "check", **variables).stdout.splitlines()
    assert all(line.startswith("ok ") for line in lines)
    assert {
        "table",
        "indexes",
        "database",
        "clock",
        "rights",
        "delivered",
        "causes",
        "prune",
        "lease",
        "broker",
        "topics",
    } == {line.split()[1].rstrip(":") for line in lines}


def test_a_topic_that_is_missing_is_named(outbox: Outbox, kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    there, missing = topic(), f"missing.{uuid.uuid4().hex}"
    outbox.insert([Row(there), Row(missing)])
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}
    [(level, message, _)] = check(tmp_path, variables)["topics"]
    assert (level, message) == ("warning", f"topic {missing!r} does not exist")
    check(tmp_path, variables, "--strict", status=1)


async def test_waiting_events_that_are_not_allowed_are_named(
    outbox: Outbox, nats_url: str, stream: MakeStream, tmp_path: Path
) -> None:
    subject = (await stream()).name
    outbox.insert([Row(f"{subject}.orders"), Row("mails\x1b[2J"), Row("$KV.prices.gold"), Row("$KV.prices.lead")])
    variables = {
        "STORAGE_URL": outbox.relay_url,
        "PUBLISHER_URL": nats_url,
        "ALLOWED_EVENT_TYPES": f"{subject}.*,*.gold,$KV.*.lead",
    }
    refused = check(tmp_path, variables, status=1)["refused"]
    assert [(level, message.partition(": no pattern")[0][:90]) for level, message, _ in refused] == [
        ("warning", "events for 'mails\\x1b[2J' become DEAD: NOT_ALLOWED"),
        ("warning", "events for '$KV.prices.gold' become DEAD: NOT_ALLOWED: '$KV.prices.gold' steers the broker"),
    ]


def test_a_missing_index_comes_with_its_statement(outbox: Outbox, tmp_path: Path) -> None:
    outbox.database.run("DROP INDEX idx_openoutbox_prune_dead")
    [(level, message, advice)] = check(tmp_path, {"STORAGE_URL": outbox.relay_url})["indexes"]
    assert (level, message) == ("warning", "index idx_openoutbox_prune_dead is missing")
    outbox.database.run(advice.partition(", or: ")[2])
    assert "indexes" not in check(tmp_path, {"STORAGE_URL": outbox.relay_url})


def test_order_per_key_needs_its_column_and_indexes(outbox: Outbox, tmp_path: Path) -> None:
    variables = {"STORAGE_URL": outbox.relay_url, "ORDERING": "key"}
    [(level, message, advice)] = check(tmp_path, variables, status=1)["order"]
    assert (level, message) == ("error", "there is no column insertion_order, and ORDERING=key needs it")
    assert call_cli(tmp_path, *advice.split()[2:], STORAGE_URL=outbox.owner_url).returncode == 0
    assert "order" not in check(tmp_path, variables)
    outbox.database.run("DROP INDEX idx_openoutbox_order_waiting")
    [(level, message, advice)] = check(tmp_path, variables, status=1)["order"]
    assert (level, message.partition(",")[0]) == ("error", "index idx_openoutbox_order_waiting is missing")
    assert call_cli(tmp_path, *advice.split()[2:], STORAGE_URL=outbox.owner_url).returncode == 0
    assert "order" not in check(tmp_path, variables)


def test_on_delivered_delete_needs_the_right_and_one_mode_for_all_relays(outbox: Outbox, tmp_path: Path) -> None:
    environment = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout", "ON_DELIVERED": "delete"}
    [(level, message, advice)] = check(tmp_path, environment, status=1)["rights"]
    assert (level, message) == ("error", "test_relay may not delete rows, and ON_DELIVERED=delete needs it")
    outbox.database.run(advice.removeprefix("run: "))
    assert check(tmp_path, environment).keys() <= {"broker"}
    assert "ON_DELIVERED=delete: the row of a" in call_cli(tmp_path, "check", **environment).stdout
    outbox.fill("t", 1)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now()")
    [(level, message, _)] = check(tmp_path, environment)["delivered"]
    assert (level, "another relay has ON_DELIVERED=keep" in message) == ("warning", True)
    assert "ON_DELIVERED=keep" in call_cli(tmp_path, "check", STORAGE_URL=outbox.relay_url).stdout


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("status = 'DELIVERING', locked_by = 'a hand'", "a status that does not go with their locked_by and locked_at"),
        ("locked_by = 'a hand'", "a status that does not go with their locked_by and locked_at"),
        ("status = 'DELIVERED'", "a status that does not go with their delivered_at"),
        ("delivered_at = now()", "a status that does not go with their delivered_at"),
        ("status = 'DEAD', attempts = -1", "attempts below zero"),
    ],
)
def test_rows_that_no_relay_writes_are_counted(outbox: Outbox, tmp_path: Path, change: str, fault: str) -> None:
    outbox.fill("t", 3)
    outbox.database.run(f"UPDATE openoutbox_events SET {change}")
    [(level, message, _)] = check(tmp_path, {"STORAGE_URL": outbox.relay_url})["rows"]
    assert (level, message) == ("warning", f"3 rows have {fault}")


@pytest.mark.parametrize(("status", "column"), [("DELIVERING", "locked_at"), ("PENDING", "created_at")])
def test_a_time_ahead_of_the_database_is_named(outbox: Outbox, tmp_path: Path, status: str, column: str) -> None:
    environment = {"STORAGE_URL": outbox.relay_url}
    outbox.insert([Row("t")] * 2)
    sql = "UPDATE openoutbox_events SET status = %s, locked_by = %s, locked_at = now()"
    outbox.database.run(sql, [status, "one"])
    assert "clock" not in check(tmp_path, environment)
    outbox.database.run(f"UPDATE openoutbox_events SET {column} = now() + '1 h', available_at = now() + '1 h'")
    [(level, message, advice)] = check(tmp_path, environment)["clock"]
    assert level == "warning"
    assert message.startswith(f"2 rows have a {column} up to 3")
    assert "set back" in advice
    if status == "PENDING":
        outbox.database.run(advice.partition("run: ")[2])
        assert outbox.database.run("SELECT count(*) FROM openoutbox_events WHERE available_at <= now()") == [(2,)]


def test_an_index_by_which_an_insert_skips_an_event_is_named(outbox: Outbox, tmp_path: Path) -> None:
    environment = {"STORAGE_URL": outbox.relay_url}
    outbox.database.run("CREATE UNIQUE INDEX once ON openoutbox_events (event_type, partition_key)")
    with outbox.database.connect(autocommit=False) as connection:
        assert enqueue(connection, NewEvent("t", b"first", partition_key="k")).inserted == 1
        assert enqueue(connection, NewEvent("t", b"second", partition_key="k")).inserted == 0
    [(level, message, advice)] = check(tmp_path, environment)["indexes"]
    assert (level, "index once may refuse a row" in message) == ("warning", True)
    assert advice.startswith("drop index once")
    outbox.database.run("DROP INDEX once; CREATE UNIQUE INDEX ON openoutbox_events (partition_key, event_id)")
    assert "indexes" not in check(tmp_path, environment)


def test_what_may_keep_an_event_as_it_was_is_named_with_its_remedy(outbox: Outbox, tmp_path: Path) -> None:
    environment = {"STORAGE_URL": outbox.relay_url}
    make = (
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
        *(
            f"CREATE TRIGGER {name} {when} ON openoutbox_events FOR EACH {each} EXECUTE FUNCTION keep()"
            for name, when, each in [
                ('"Stamp"', "BEFORE UPDATE OR INSERT", "ROW"),
                ("soft", "BEFORE DELETE", "ROW"),
                ("added", "BEFORE INSERT", "ROW"),
                ("audit", "AFTER UPDATE", "ROW"),
                ("statement", "BEFORE UPDATE", "STATEMENT"),
                ("off", "BEFORE UPDATE", "ROW"),
            ]
        ),
        "ALTER TABLE openoutbox_events DISABLE TRIGGER off",
        "CREATE RULE keep AS ON DELETE TO openoutbox_events WHERE old.status = 'DEAD' DO INSTEAD NOTHING",
        "CREATE POLICY strict ON openoutbox_events AS RESTRICTIVE USING (true)",
        "CREATE POLICY open ON openoutbox_events USING (true)",
    )
    for sql in make:
        outbox.database.run(sql)
    findings = [one for one in check(tmp_path, environment)["table"] if one[0] != "ok"]
    named = {level + " " + message.partition(" may ")[0] for level, message, _ in findings}
    assert named == {
        "warning RESTRICTIVE policy strict",
        'warning BEFORE trigger "Stamp"',
        "warning BEFORE trigger soft",
        "warning rule keep",
    }
    for _, _, advice in findings:
        outbox.database.run(advice.partition("run: ")[2])
    assert [one for one in check(tmp_path, environment).get("table", []) if one[0] != "ok"] == []


def test_what_a_table_is_besides_a_table_is_named_with_its_remedy(outbox: Outbox, tmp_path: Path) -> None:
    environment = {"STORAGE_URL": outbox.relay_url}
    outbox.database.run("ALTER TABLE openoutbox_events SET UNLOGGED")
    outbox.database.run("CREATE UNLOGGED TABLE archive () INHERITS (openoutbox_events)")
    outbox.database.run("CREATE TABLE base (event_id uuid NOT NULL); ALTER TABLE openoutbox_events INHERIT base")
    findings = check(tmp_path, environment)["table"]
    assert [(level, message.partition(":")[0]) for level, message, _ in findings] == [
        ("warning", "table archive inherits from openoutbox_events"),
        ("warning", "openoutbox_events inherits from base"),
        ("warning", "openoutbox_events is UNLOGGED"),
    ]
    for _, _, advice in findings:
        outbox.database.run(advice.removeprefix("run: "))
    assert "table" not in check(tmp_path, environment)


def test_a_publication_that_stops_every_claim_is_an_error(outbox: Outbox, tmp_path: Path) -> None:
    environment = {"STORAGE_URL": outbox.relay_url}
    outbox.database.run("CREATE PUBLICATION all_changes FOR TABLE openoutbox_events")
    assert "table" not in check(tmp_path, environment)
    outbox.database.run("ALTER TABLE openoutbox_events REPLICA IDENTITY NOTHING")
    [(level, message, advice)] = check(tmp_path, environment, status=1)["table"]
    assert (level, message.partition(" sends")[0]) == ("error", "publication all_changes")
    outbox.database.run(advice.removeprefix("run: ").partition(",")[0])
    assert "table" not in check(tmp_path, environment)


def test_a_database_that_quotes_all_identifiers_and_a_url_with_a_byte_order_mark_are_fine(
    outbox: Outbox, tmp_path: Path
) -> None:
    outbox.database.run(f"ALTER DATABASE {outbox.database.name} SET quote_all_identifiers = on")
    file = tmp_path / "url"
    file.write_text(outbox.owner_url, encoding="utf-8-sig")
    assert not check(tmp_path, {"STORAGE_URL_FILE": str(file)}).keys() & {"table", "indexes", "database"}
    outbox.database.run("DROP INDEX idx_openoutbox_prune_dead")
    for expected in ("idx_openoutbox_prune_dead", "up to date"):
        done = call_cli(tmp_path, "migrate", STORAGE_URL_FILE=str(file))
        assert (done.returncode, expected in done.stdout) == (0, True), done


def test_policies_that_hide_events_from_the_user_are_named(outbox: Outbox, tmp_path: Path) -> None:
    assert "rights" not in check(tmp_path, {"STORAGE_URL": outbox.relay_url})
    outbox.database.run("ALTER TABLE openoutbox_events ENABLE ROW LEVEL SECURITY")
    outbox.fill("t", 1)
    for arguments, url in (((), outbox.relay_url), (("--for", "reader"), outbox.reader_url)):
        [(level, message, advice)] = check(tmp_path, {"STORAGE_URL": url}, *arguments)["rights"]
        assert (level, "row-level security of openoutbox_events applies to" in message) == ("warning", True)
        assert "BYPASSRLS" in advice
    outbox.database.run("ALTER TABLE openoutbox_events DISABLE ROW LEVEL SECURITY")


def test_no_table_and_a_wrong_table_are_errors(database: Database, tmp_path: Path) -> None:
    [(level, message, advice)] = check(tmp_path, {"STORAGE_URL": database.url}, status=1)["table"]
    assert (level, message) == ("error", "there is no table openoutbox_events")
    assert call_cli(tmp_path, *advice.split()[2:], STORAGE_URL=database.url).returncode == 0
    assert "table" not in check(tmp_path, {"STORAGE_URL": database.url})
    database.run("ALTER TABLE openoutbox_events ALTER COLUMN payload DROP NOT NULL")
    [(level, message, _)] = check(tmp_path, {"STORAGE_URL": database.url}, status=1)["table"]
    assert level == "error"
    assert "column payload is bytea: it must be bytea NOT NULL" in message


def test_of_a_database_that_is_away_nothing_else_is_said(outbox: Outbox, kafka: str, tmp_path: Path) -> None:
    url = sqlalchemy.make_url(outbox.url).set(database="absent").render_as_string(hide_password=False)
    variables = {"STORAGE_URL": url, "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}
    done = call_cli(tmp_path, "check", **variables)
    first, *others = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert first.startswith("error    database: connection failed: ")
    assert first.endswith('database "absent" does not exist')
    assert [line for line in others if "topics" in line] == []
    failed = call_cli(tmp_path, "stats", STORAGE_URL=url)
    assert failed.stderr.startswith("error: connection failed: ")


def test_missing_rights_come_with_their_grants(outbox: Outbox, tmp_path: Path) -> None:
    role = f"relay_{outbox.database.name}"
    outbox.database.run(f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    url = sqlalchemy.make_url(outbox.url).set(username=role, password="geheim").render_as_string(hide_password=False)
    try:
        outbox.database.run(f"GRANT SELECT ON openoutbox_events TO {role}")
        [(level, message, advice)] = check(tmp_path, {"STORAGE_URL": url}, status=1)["rights"]
        assert level == "error"
        assert message.startswith(f"{role} may not write status, attempts")
        outbox.database.run(advice.removeprefix("run: "))
        assert "rights" not in check(tmp_path, {"STORAGE_URL": url})
    finally:
        outbox.database.run(f"DROP OWNED BY {role}")
        outbox.database.run(f"DROP ROLE {role}")


@pytest.mark.parametrize(("kind", "broker"), [("kafka", "127.0.0.1:1"), ("nats", "nats://u:geheim@127.0.0.1:1")])
def test_a_broker_that_does_not_answer_is_an_error(outbox: Outbox, tmp_path: Path, kind: str, broker: str) -> None:
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": kind, "PUBLISHER_URL": broker}
    variables |= {"NATS_CONNECTION_TIMEOUT": "1s"}
    [(level, message, _)] = check(tmp_path, variables, status=1)["broker"]
    assert level == "error"
    assert "127.0.0.1:1" in message
    assert "geheim" not in message


def test_a_name_that_is_almost_a_variable_is_reported(outbox: Outbox, tmp_path: Path) -> None:
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "stdout", "STORAGE_TABEL_NAME": "other"}
    findings = check(tmp_path, variables)
    [(level, message, _)] = findings["settings"]
    assert level == "warning"
    assert "did you mean STORAGE_TABLE_NAME?" in message


def test_a_database_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    findings = check(tmp_path, {"STORAGE_URL": "postgres://u:geheim@127.0.0.1:1/d"}, status=1)
    [(level, message, _)] = findings["database"]
    assert level == "error"
    assert "geheim" not in message


def test_a_server_that_refuses_writes_is_an_error(outbox: Outbox, tmp_path: Path) -> None:
    variables = {"STORAGE_URL": f"{outbox.url}?options=-cdefault_transaction_read_only%3Don"}
    [(level, message, _)] = check(tmp_path, variables, status=1)["database"]
    assert (level, message) == ("error", "the server refuses writes: it is a standby, or set read-only")


async def test_streams_and_their_memory_of_ids(
    outbox: Outbox, nats_url: str, jetstream: JetStreamContext, tmp_path: Path
) -> None:
    name = f"check{uuid.uuid4().hex}"
    config = StreamConfig(name=name, subjects=[f"{name}.*"], duplicate_window=120)
    await jetstream.add_stream(config)
    outbox.insert([Row(f"{name}.a"), Row(f"{name}.a.b")])
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "nats", "PUBLISHER_URL": nats_url}
    findings = check(tmp_path, variables, status=1)
    assert [one[:2] for one in findings["streams"]] == [("error", f"no stream takes the subject '{name}.a.b'")]
    assert f"nats stream add EVENTS --subjects {name}.a.b --defaults" in findings["streams"][0][2]
    [(level, message, advice)] = findings["duplicates"]
    assert level == "warning"
    assert message.startswith(f"stream {name} forgets an event's id after 2m, before a crash of its relay")
    # LEASE_TIMEOUT, the reaper's 10 s, the first backoff.
    assert f"nats stream edit {name} --dupe-window 3m12s" in advice
    await jetstream.update_stream(StreamConfig(name=name, subjects=[f"{name}.>"], duplicate_window=192))
    assert check(tmp_path, variables, "--strict") == {}
    await jetstream.delete_stream(name)


@pytest.mark.parametrize(
    ("config", "level", "said"),
    [
        ({"retention": RetentionPolicy.INTEREST}, "warning", "acknowledges events and keeps none"),
        ({"no_ack": True}, "error", "keeps events and acknowledges none"),
    ],
)
async def test_a_stream_that_keeps_nothing_or_acknowledges_nothing_is_named(
    outbox: Outbox,
    nats_url: str,
    jetstream: JetStreamContext,
    tmp_path: Path,
    config: dict[str, Any],
    level: str,
    said: str,
) -> None:
    name = f"check{uuid.uuid4().hex}"
    await jetstream.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"], duplicate_window=600, **config))
    outbox.insert([Row(f"{name}.a")])
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "nats", "PUBLISHER_URL": nats_url}
    findings = check(tmp_path, variables, status=1 if level == "error" else 0)
    assert [(one[0], said in one[1]) for one in findings["streams"]] == [(level, True)]
    if level == "warning":
        await jetstream.add_consumer(name, ConsumerConfig(durable_name="other", filter_subject=f"{name}.other.>"))
        [(_, message, _)] = check(tmp_path, variables)["streams"]
        assert message.endswith(f"its retention is interest, without a consumer that wants '{name}.a'")
        await jetstream.add_consumer(
            name, ConsumerConfig(durable_name="own", filter_subjects=[f"{name}.b", f"{name}.a"])
        )
        assert "streams" not in check(tmp_path, variables)
    await jetstream.delete_stream(name)


def test_a_lease_that_is_too_short_is_warned_about(outbox: Outbox, tmp_path: Path, kafka: str) -> None:
    variables = {
        "STORAGE_URL": outbox.relay_url,
        "PUBLISHER_TYPE": "kafka",
        "PUBLISHER_URL": kafka,
        "LEASE_TIMEOUT": "15s",
    }
    assert check(tmp_path, variables)["lease"][0][0] == "warning"


def test_settings_that_cannot_be_read_fail_with_two(outbox: Outbox, tmp_path: Path) -> None:
    failed = call_cli(tmp_path, "check", STORAGE_URL=outbox.relay_url, LEASE_TIMEOUT="soon", PUBLISHER_TYPE="pigeon")
    assert failed.returncode == 2
    assert "LEASE_TIMEOUT" in failed.stderr
    assert "PUBLISHER_TYPE" in failed.stderr
