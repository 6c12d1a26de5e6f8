"""What one ``save()`` puts into the table, and what it refuses before anything is written: without a JVM.

tests/spark/write/test_batch.py has the ``save()`` of a session.
"""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from relay.core.errors import ConfigError, EventError, OutboxError, SchemaError, StorageError, StorageUnavailable
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.spark.ledger import runs, staging_tables
from tests.spark.plain import save
from tests.support.fixtures.outbox import Outbox

BOTH = pytest.mark.parametrize("commit", ["atomic", "partition"])


def orders(count: int) -> pa.Table:
    """Orders with a business key ``number``."""
    numbers = range(count)
    bodies = pa.array([{"number": number} for number in numbers], pa.struct([("number", pa.int64())]))
    types = pa.array(["orders.created"] * count, pa.string())
    return pa.table({"event_type": types, "payload": bodies, "number": pa.array(numbers, pa.int64())})


@BOTH
def test_every_column_of_an_event_is_written(outbox: Outbox, commit: str) -> None:
    event_id = uuid.uuid4()
    braced_id = uuid.uuid4()
    due = datetime(2031, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
    rows = pa.table(
        {
            "event_id": [str(event_id).upper(), f"{{{braced_id}}}"],
            "event_type": ["t.é", "t"],
            "payload": [b"\x00\xff raw", b""],
            "partition_key": [None, "k"],
            "headers": ['{"n": 12345678901234567890123}', None],
            "available_at": pa.array([due, None], pa.timestamp("us", "UTC")),
        }
    )
    save(rows, url=outbox.url, commit=commit)
    first, second = outbox.row(str(event_id)), outbox.row(str(braced_id))
    assert (first["event_type"], first["payload"], first["partition_key"]) == ("t.é", b"\x00\xff raw", None)
    assert first["available_at"] == due
    assert sorted(outbox.rows("headers::text")) == [('{"n": 12345678901234567890123}',), ("{}",)]
    assert (second["payload"], second["partition_key"]) == (b"", "k")
    assert second["available_at"] == second["created_at"]


@BOTH
def test_running_the_same_write_again_adds_nothing(outbox: Outbox, commit: str) -> None:
    save(orders(1000), 3, url=outbox.url, commit=commit, idColumns="number")
    save(orders(1000), 2, url=outbox.url, commit="partition", idColumns="number")
    save(orders(1500), 5, url=outbox.url, commit=commit, idColumns="number")
    assert len(outbox.rows("event_id")) == 1500
    assert runs(outbox) == [("committed", 1000, 1000), ("committed", 1000, 0), ("committed", 1500, 500)]


@BOTH
def test_a_repeat_with_another_payload_is_refused_where_it_can_be_compared(
    outbox: Outbox, commit: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = orders(1000)
    written: dict[str, Any] = {"url": outbox.url, "commit": commit, "idColumns": "number"}
    save(rows, 3, **written)
    payloads = pa.array([{"number": -1}] * 1000, rows.schema.field("payload").type)
    other = rows.set_column(1, "payload", payloads)
    save(other.slice(0, 600), 2, **written)
    assert "unchecked: 600 events are in" in caplog.text
    assert outbox.database.run("SELECT count(*) FROM openoutbox_events WHERE payload = '{\"number\":-1}'") == [(0,)]

    add_extension(outbox.owner_url, TableName(), "sql-api")
    caplog.clear()
    save(rows, 2, **written)
    ids = {str(event_id) for (event_id,) in outbox.rows("event_id")}
    with pytest.raises(EventError, match="with another type or payload") as refused:
        save(pa.concat_tables([orders(1100).slice(1000), other.slice(500, 3)]), **written)
    assert set(re.findall(r"[0-9a-f-]{36}", str(refused.value))) <= ids
    assert (len(outbox.rows("event_id")), "unchecked" in caplog.text) == (1000, False)
    outbox.database.run(f"DELETE FROM openoutbox_events WHERE event_id = '{min(ids)}'")
    save(rows, 2, **written)
    assert (len(outbox.rows("event_id")), "unchecked" in caplog.text) == (1000, False)


@BOTH
def test_rows_keep_the_order_of_the_frame(outbox: Outbox, commit: str) -> None:
    """Of each key, placed comes before paid and shipped: ids are hashes, and their order would mix them."""
    outbox.database.run("ALTER TABLE openoutbox_events ADD COLUMN place BIGINT GENERATED ALWAYS AS IDENTITY")
    bodies = [f"{key} {step}" for key in range(100) for step in ("placed", "paid", "shipped")]
    keys = [body.split()[0] for body in bodies]
    rows = pa.table({"event_type": ["t"] * 300, "payload": bodies, "partition_key": keys})
    save(rows, 3, url=outbox.url, commit=commit)
    inserted = outbox.database.run("SELECT convert_from(payload, 'UTF8') FROM openoutbox_events ORDER BY place")
    assert inserted == [(body,) for body in bodies]


@BOTH
def test_equal_rows_stay_several_events_and_a_named_job_adds_nothing_twice(outbox: Outbox, commit: str) -> None:
    rows = pa.table({"event_type": ["t"] * 60, "payload": [str(number % 3) for number in range(60)]})
    save(rows, 2, url=outbox.url, commit=commit, txnAppId="nightly")
    save(rows, 2, url=outbox.url, commit=commit, txnAppId="nightly")
    assert len(outbox.rows("event_id")) == 60
    save(rows, 2, url=outbox.url, commit=commit, txnAppId="of the next night")
    assert len(outbox.rows("event_id")) == 120
    save(rows, 2, url=outbox.url, commit=commit)
    assert len(outbox.rows("event_id")) == 180


def test_a_key_that_repeats_in_the_data_is_one_event(outbox: Outbox) -> None:
    rows = orders(100)
    rows = rows.set_column(2, "number", pa.array([number % 10 for number in range(100)]))
    save(rows, 3, url=outbox.url, commit="partition", idColumns="number", batchsize=7)
    assert len(outbox.rows("event_id")) == 10
    save(rows, 3, url=outbox.url, commit="atomic", idColumns="number")
    assert len(outbox.rows("event_id")) == 10


@BOTH
def test_a_constant_event_type_and_an_own_table(outbox: Outbox, commit: str) -> None:
    outbox.database.run('CREATE SCHEMA "Own"')
    outbox.database.run('CREATE TABLE "Own"."events %(x)s" (LIKE openoutbox_events INCLUDING ALL)')
    options: dict[str, Any] = {
        "url": outbox.url,
        "commit": commit,
        "table": "Own.events %(x)s",
        "eventType": "orders.imported",
    }
    rows = orders(10).select(["payload"])
    save(rows, **options, txnAppId="of a name")
    save(rows, **options, txnAppId="of a name")
    inserted = outbox.database.run('SELECT DISTINCT event_type, count(*) FROM "Own"."events %(x)s" GROUP BY 1')
    assert inserted == [("orders.imported", 10)]
    assert outbox.rows("event_id") == []


WRONG: dict[str, tuple[list[str], dict[str, Any], type[OutboxError], str]] = {
    "unknown column": (["event_type", "payload", "colour"], {}, EventError, "column colour: not a column of the outb"),
    "option": (["event_type", "payload"], {"maxConnection": "5"}, ConfigError, "option maxconnection"),
    "table": (["event_type", "payload"], {"table": "nowhere"}, SchemaError, "there is no table nowhere"),
    "no outbox": (["event_type", "payload"], {"table": "pg_catalog.pg_type"}, SchemaError, "has no column event_type"),
    "mode": (["event_type", "payload"], {"mode": "overwrite"}, ConfigError, "can only be added"),
}
"""What the columns and options of a DataFrame may be wrong in is tried in test_columns.py and test_options.py."""


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_fails_on_the_driver_by_name(outbox: Outbox, case: str) -> None:
    columns, options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        save(pa.table({name: ["x"] for name in columns}), url=outbox.url, **options)
    assert outbox.rows("event_id") == []


def test_a_row_that_is_no_event_aborts_the_run(outbox: Outbox) -> None:
    rows = pa.table({"event_type": ["t"] * 100, "payload": ["x"] * 100, "headers": ["{}"] * 50 + ["{"] + ["{}"] * 49})
    with pytest.raises(StorageError, match=r"invalid input syntax for type json .*column headers"):
        save(rows, 2, url=outbox.url)
    assert outbox.rows("event_id") == []
    assert staging_tables(outbox) == []
    assert [state for state, *_ in runs(outbox)] == ["aborted"]


def test_the_password_is_in_no_message(outbox: Outbox) -> None:
    port = psycopg.conninfo.conninfo_to_dict(outbox.url)["port"]
    with pytest.raises(StorageUnavailable) as caught:
        save(orders(1), url=f"postgresql://postgres:s3cret@127.0.0.1:{port}/no_such_database", idColumns="number")
    assert "no_such_database" in str(caught.value)
    assert "s3cret" not in str(caught.value)
