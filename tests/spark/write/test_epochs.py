"""A stream's micro-batches by hand, without Spark: replayed ones, and those of another checkpoint under one id."""

from __future__ import annotations

import uuid

import pytest

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName
from relay.spark.connection import connect
from relay.spark.setup import create_ledger
from relay.spark.statements import SparkStatements
from relay.spark.write.epochs import Run, normal_location
from relay.spark.write.runs import commit_run, open_run
from relay.spark.write.staging import Staged
from tests.support.fixtures.outbox import Outbox


def micro_batch(
    outbox: Outbox, epoch: int, rows: int, checkpoint: str | None, moved_from: str | None = None, id_sum: int = 0
) -> int:
    """Write one micro-batch of query ``q`` as its tasks and its driver do; returns the number of new rows."""
    statements = SparkStatements(TableName(), "openoutbox_spark")
    table = '"public"."openoutbox_events"'
    run = Run(uuid.uuid4(), table, "q", "atomic", "elsewhere/1/1", "q", epoch, checkpoint, moved_from)
    with connect(outbox.url) as connection:
        create_ledger(connection, statements)
        open_run(connection, statements, run)
    outbox.database.run(
        f"INSERT INTO openoutbox_spark.{run.stage} "
        "SELECT 1, n, gen_random_uuid(), 't', NULL, 'x', '{}', NULL FROM generate_series(1, %s) AS n",
        [rows],
    )
    return commit_run(outbox.url, statements, run, Staged([1], rows, id_sum=id_sum or rows))[1]


def test_a_replayed_micro_batch_changes_nothing(outbox: Outbox) -> None:
    assert micro_batch(outbox, 0, 10, "/a") == 10
    assert micro_batch(outbox, 0, 10, "/a") == 0
    assert micro_batch(outbox, 1, 5, "/a") == 5
    assert len(outbox.rows("event_id")) == 15


@pytest.mark.parametrize(
    ("epoch", "rows", "checkpoint", "message"),
    [
        (0, 11, None, "has committed micro-batch 0 with 10 rows, and this stream repeats it with 11 others"),
        (1, 6, None, "with 5 rows, and this stream repeats it with 6 others"),
        (2, 5, "/copy", "has the checkpoint /a, and this stream has /copy"),
    ],
)
def test_another_checkpoint_under_a_known_id_is_refused(
    outbox: Outbox, epoch: int, rows: int, checkpoint: str | None, message: str
) -> None:
    micro_batch(outbox, 0, 10, "/a")
    micro_batch(outbox, 1, 5, "/a")
    with pytest.raises(ConfigError, match=message):
        micro_batch(outbox, epoch, rows, checkpoint)
    assert len(outbox.rows("event_id")) == 15


def test_a_moved_checkpoint_says_so_once(outbox: Outbox) -> None:
    micro_batch(outbox, 0, 10, "/a")
    assert micro_batch(outbox, 1, 5, "/b", "/a") == 5
    assert micro_batch(outbox, 2, 5, "/b") == 5
    with pytest.raises(ConfigError, match="has the checkpoint /b, and this stream has /a"):
        micro_batch(outbox, 3, 5, "/a")


def test_a_micro_batch_before_the_last_is_a_replay_where_the_ledger_has_it(outbox: Outbox) -> None:
    for epoch in (0, 2):
        micro_batch(outbox, epoch, 10, "/a")
    assert micro_batch(outbox, 0, 10, "/a") == 0
    with pytest.raises(ConfigError, match="has committed micro-batch 2, and this stream writes micro-batch 1"):
        micro_batch(outbox, 1, 10, "/a")


def test_a_replay_with_other_rows_is_refused_until_an_operator_says_what_they_are(outbox: Outbox) -> None:
    micro_batch(outbox, 0, 10, "/a", id_sum=77)
    with pytest.raises(ConfigError, match="set id_sum to NULL to take it as written, or delete the row"):
        micro_batch(outbox, 0, 10, "/a", id_sum=78)
    outbox.database.run("UPDATE openoutbox_spark.runs SET id_sum = NULL")
    assert micro_batch(outbox, 0, 10, "/a", id_sum=78) == 0
    outbox.database.run("DELETE FROM openoutbox_spark.runs WHERE state = 'committed'")
    assert micro_batch(outbox, 0, 10, "/a", id_sum=78) == 10


def test_the_spellings_of_a_location_are_one() -> None:
    assert {normal_location(each) for each in ("/a/b", "/a/b/", "file:/a/b", "file:///a/b")} == {"/a/b"}
    assert normal_location("s3a://bucket/a/") == "s3a://bucket/a"
    assert normal_location(None) is None


def test_a_ledger_of_an_earlier_release_gets_its_missing_column(outbox: Outbox) -> None:
    micro_batch(outbox, 0, 10, "/a")
    outbox.database.run("ALTER TABLE openoutbox_spark.runs DROP COLUMN retries")
    assert micro_batch(outbox, 1, 5, "/a") == 5
