"""A reader's options, its errors for invalid ones, and how keys are cut into ranges."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName
from relay.spark import OutboxDataSource
from relay.spark.read.ranges import between, by_page
from relay.spark.read.read_options import outbox_options
from relay.spark.read.reader import FilteringReader, TableReader
from relay.spark.read.statements import copy_out, read_statement

URL = {"url": "postgresql://reader:secret@db/shop"}


def test_options_know_no_case() -> None:
    values = {**URL, "TABLE": "a.b", "numpartitions": "3", "Columns": "Event_Id, payload", "pushdown": "True"}
    options = outbox_options(values)
    assert (options.table, options.partitions, options.columns) == (
        TableName("b", "a"), 3, ("event_id", "payload"),
    )  # fmt: skip
    assert options.pushdown
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"numPartitions": "0"}, "numPartitions"),
        ({"numPartitions": "x"}, "numPartitions"),
        ({"columns": "a,,b"}, "columns"),
        ({"pushdown": "maybe"}, "pushdown"),
        ({"snapshot": ""}, "snapshot"),
        ({"tabel": "x"}, "tabel: not known"),
        ({"url": ""}, "url: missing"),
        ({"url": "mysql://x"}, "not a PostgreSQL URL"),
    ],
)
def test_wrong_options_are_named(values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        outbox_options({**URL, **values})


def test_columns_by_option_and_by_schema() -> None:
    source = OutboxDataSource({**URL, "columns": "payload,event_id"})
    schema = source.schema()
    assert schema.fieldNames() == ["payload", "event_id"]
    assert isinstance(source.reader(schema), TableReader)
    with pytest.raises(ConfigError, match="option columns"):
        source.reader(StructType([StructField("status", StringType())]))
    with pytest.raises(ConfigError, match="column colour"):
        OutboxDataSource({**URL, "columns": "colour"}).schema()
    with pytest.raises(ConfigError, match="payload: is string in the user's schema; it must be binary"):
        OutboxDataSource(dict(URL)).reader(StructType([StructField("payload", StringType())]))


def test_nothing_is_pushed_unless_it_is_asked_for() -> None:
    source = OutboxDataSource(dict(URL))
    assert type(source.reader(source.schema())) is TableReader
    source = OutboxDataSource({**URL, "pushdown": "true"})
    assert type(source.reader(source.schema())) is FilteringReader


def test_names_are_quoted_in_the_statement() -> None:
    text = copy_out(read_statement("read_events", TableName('out"box', "Own %"), ["event_id", "payload"]))
    assert 'FROM ONLY "Own %%"."out""box"' in text
    assert 'SELECT "event_id", "payload"' in text
    assert text.rstrip().endswith('TO STDOUT WITH (FORMAT "binary")')


def test_ranges_leave_nothing_out() -> None:
    assert [(each.range_from, each.range_below) for each in between([3, 7])] == [(None, 3), (3, 7), (7, None)]
    assert [(each.page_from, each.page_below) for each in by_page(400, 2)] == [("(0,0)", "(200,0)"), ("(200,0)", None)]
    assert len(by_page(0, 8)) == 1
