"""An outbox is its full name and its oid, not the text of the option ``table``; and few rows need no staging table."""

from __future__ import annotations

import logging
import uuid

import pyarrow as pa
import pytest

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName
from relay.spark.setup import setup
from relay.spark.write.write_options import WriteOptions
from relay.spark.write.writers import BatchWriter
from tests.spark import plain
from tests.spark.ledger import runs
from tests.spark.write.test_epochs import micro_batch
from tests.spark.write.test_transactions import COLUMNS, repeat, save, version
from tests.support.fixtures.outbox import Outbox

NUMBERED = "ALTER TABLE openoutbox_events ADD COLUMN place BIGINT GENERATED ALWAYS AS IDENTITY"


def of_tenant(outbox: Outbox, tenant: str) -> str:
    """The URL of a tenant with a schema of its own, and the outbox in it."""
    outbox.database.run(f"CREATE SCHEMA {tenant}")
    outbox.database.run(f"CREATE TABLE {tenant}.openoutbox_events (LIKE openoutbox_events INCLUDING ALL)")
    return f"{outbox.url}?options=-csearch_path%3D{tenant}"


def test_tables_of_one_name_in_two_schemas_are_two_outboxes(outbox: Outbox) -> None:
    run_id = uuid.uuid4()
    for tenant in ("a", "b"):
        url = of_tenant(outbox, tenant)
        save(WriteOptions(url, event_type="t", txn_app_id="nightly", txn_version=7), 10)
        assert outbox.database.run(f"SELECT count(*) FROM {tenant}.openoutbox_events") == [(10,)]
    save(WriteOptions(url, event_type="t", run_id=run_id), 1)
    with pytest.raises(ConfigError, match=f"option runId: run {run_id} wrote to another table"):
        BatchWriter(WriteOptions(outbox.url, event_type="t", run_id=run_id), COLUMNS)


def test_one_table_under_two_spellings_is_one_outbox(outbox: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    save(version(outbox, 7), 10)
    qualified = TableName("openoutbox_events", "public")
    with caplog.at_level(logging.WARNING):
        repeat(WriteOptions(outbox.url, qualified, event_type="t", txn_app_id="app", txn_version=7))
    assert caplog.messages == ["txnVersion 7 of txnAppId app was committed before: this write changes nothing"]


def created_again(outbox: Outbox) -> None:
    """Another table of the name, as a restored dump makes it."""
    outbox.database.run("CREATE TABLE other (LIKE openoutbox_events INCLUDING ALL)")
    outbox.database.run("DROP TABLE openoutbox_events")
    outbox.database.run("ALTER TABLE other RENAME TO openoutbox_events")


def renamed(outbox: Outbox) -> None:
    """The table under another name, and back: its oid is the same."""
    outbox.database.run('UPDATE openoutbox_spark.runs SET outbox = \'"public"."former"\'')


def of_an_earlier_release(outbox: Outbox) -> None:
    outbox.database.run("UPDATE openoutbox_spark.runs SET outbox = '\"openoutbox_events\"', outbox_oid = NULL")


@pytest.mark.parametrize("change", [created_again, renamed, of_an_earlier_release])
def test_where_table_and_ledger_disagree_the_table_must_adopt_its_runs(outbox: Outbox, change: object) -> None:
    save(version(outbox, 7), 10)
    micro_batch(outbox, 3, 10, "/a")
    assert callable(change)
    change(outbox)
    with pytest.raises(ConfigError, match="relay-cli spark setup --adopt --table TABLE"):
        BatchWriter(version(outbox, 7), COLUMNS)
    with pytest.raises(ConfigError, match="relay-cli spark setup --adopt --table TABLE"):
        micro_batch(outbox, 3, 10, "/a")
    assert setup(outbox.url, TableName(), None, adopt=True) == ["2 runs adopted"]
    repeat(version(outbox, 7))
    assert micro_batch(outbox, 3, 10, "/a") == 0
    assert micro_batch(outbox, 4, 10, "/a") == 10


def bodies_of(outbox: Outbox) -> list[str]:
    """In the order of insertion: PostgreSQL puts a small row on an earlier page."""
    rows = outbox.database.run("SELECT convert_from(payload, 'UTF8') FROM openoutbox_events ORDER BY place")
    return [body for (body,) in rows]


def test_few_rows_need_no_table(outbox: Outbox) -> None:
    """Making and dropping one leaves dead rows in PostgreSQL's catalog, for each micro-batch."""
    outbox.database.run(NUMBERED)
    plain.save(pa.table({"event_type": ["t"], "payload": ["first"]}), url=outbox.url)
    outbox.database.run(
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no tables'; END $$"
    )
    outbox.database.run(
        "CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION refuse()"
    )
    bodies = [f"{number:03}" for number in range(100)]
    plain.save(pa.table({"event_type": ["t"] * 100, "payload": bodies}), 3, url=outbox.url, job="small")
    assert bodies_of(outbox) == ["first", *bodies]
    assert runs(outbox) == [("committed", 1, 1), ("committed", 100, 100)]


def test_few_rows_of_a_partition_keep_their_place_beside_many(outbox: Outbox) -> None:
    bodies = [f"{number:03}".ljust(30_000 if 100 <= number < 200 else 4) for number in range(300)]
    rows = pa.table({"event_type": ["t"] * 300, "payload": bodies})
    outbox.database.run(NUMBERED)
    for _ in range(2):
        plain.save(rows, 3, url=outbox.url, job="once")
        assert bodies_of(outbox) == bodies
    assert runs(outbox) == [("committed", 300, 300), ("committed", 300, 0)]
