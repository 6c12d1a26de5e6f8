"""The job ``replay``: copies from the table and from an archive, once for each replay, under its id."""

from __future__ import annotations

import uuid
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from relay.spark.jobs.archive.job import run as run_archive
from relay.spark.jobs.replay.job import run
from relay_cli.app import app
from tests.spark.history import Ask, a_past, answering, fill
from tests.spark.pages import description
from tests.support.fixtures.outbox import Outbox

EVENT = "event_type, partition_key, payload, created_at"
_DELIVER = """
UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now(), updated_at = now() WHERE status = 'PENDING'
"""


@pytest.fixture
def replay(spark: SparkSession, outbox: Outbox, capsys: pytest.CaptureFixture[str]) -> Ask:
    """``replay("--status", "dead")`` runs the job."""
    return answering(run, "replay", outbox, capsys)


@pytest.fixture
def archive(spark: SparkSession, outbox: Outbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An archive of 40 events, which are in the table no more."""
    fill(outbox, "DELIVERED", 20)
    fill(outbox, "DEAD", 20)
    answering(run_archive, "archive", outbox, capsys)(str(tmp_path / "archive"))
    assert outbox.rows("event_id") == []
    return tmp_path / "archive"


def copied(outbox: Outbox, columns: str, where: str = "TRUE") -> list[tuple[object, ...]]:
    """Columns of the rows that a replay has inserted."""
    return outbox.database.run(f"SELECT {columns} FROM openoutbox_events WHERE headers ? 'replay_id' AND {where}")


def test_rows_of_the_table_become_copies_with_the_replays_id(spark: SparkSession, outbox: Outbox, replay: Ask) -> None:
    a_past(outbox, 20)
    before = {row[0]: row[1:] for row in outbox.rows(f"event_id, {EVENT}")}
    dry = replay("--status", "dead", "--dry-run")
    assert (dry["events"], dry["delivered"], dry["dead"]) == (25, 0, 25)
    assert copied(outbox, "event_id") == []
    done = replay("--status", "dead")
    assert (done["inserted"], done["total"], done["waiting"]) == (25, 25, 0)
    shown = description(spark, f"openoutbox replay {done['replay_id']}: ")
    assert shown.endswith(": 25 inserted, 25 total, 0 recent, 0 waiting")
    assert {row[0]: row[1:] for row in outbox.rows(f"event_id, {EVENT}")} == before
    copies = copied(outbox, "status, attempts, last_error, available_at <= now(), headers->>'replay_id'")
    assert set(copies) == {("PENDING", 0, None, True, done["replay_id"])}
    assert len(copies) == 25
    headers = copied(outbox, "headers->>'big', headers->>'text'", "headers ? 'big'")
    assert set(headers) == {("12345678901234567890123", "é\n")}
    raw = copied(outbox, "headers->>'X-Raw-Headers'", "headers ? 'X-Raw-Headers'")
    assert set(raw) == {('[1, "two"]',)}


def test_a_replay_that_is_run_again_inserts_nothing_twice(outbox: Outbox, replay: Ask) -> None:
    a_past(outbox, 20)
    replay_id = replay("--status", "delivered", "--type", "stock.moved")["replay_id"]
    again = ("--status", "delivered", "--type", "stock.moved", "--replay-id", replay_id)
    assert replay(*again)["inserted"] == 0
    outbox.database.run(_DELIVER)
    assert replay(*again)["inserted"] == 0
    outbox.database.run("DELETE FROM openoutbox_events WHERE headers ? 'replay_id'")
    done = replay(*again)
    assert (done["inserted"], done["total"]) == (0, 10)
    assert copied(outbox, "event_id") == []


def test_a_replay_from_an_archive(outbox: Outbox, archive: Path, replay: Ask) -> None:
    source = ("--archive", str(archive))
    first = replay(*source, "--type", "orders/odd = {name} %")
    assert first["inserted"] == 8
    again = ("--type", "orders/odd = {name} %", "--replay-id", first["replay_id"])
    outbox.database.run(_DELIVER)
    outbox.database.run("DELETE FROM openoutbox_events")
    assert replay(*source, *again)["inserted"] == 0
    done = replay(*source, "--status", "dead", "--status", "delivered", "--tenant", "tenant-2", "--key", "key-2")
    assert {row[0] for row in outbox.rows("partition_key")} == {"key-2"}
    assert {row[0] for row in outbox.rows("headers->>'tenant_id'")} == {"tenant-2"}
    assert done["inserted"] == len(outbox.rows("event_id")) > 0
    other = replay(*source, "--from", "30d")
    assert (other["inserted"], other["waiting"]) == (40 - done["inserted"], done["inserted"])
    assert len(outbox.rows("event_id")) == 40
    assert replay(*source, "--to", "8.5d", "--dry-run")["events"] == 18
    assert replay(*source, "--tenant", "tenant-2", "--tenant-header", "none", "--dry-run")["events"] == 0


def test_a_replay_id_is_of_one_selection_and_is_printed_before_the_first_copy(
    outbox: Outbox, replay: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(outbox, "DEAD", 3)
    replay_id = str(uuid.uuid4())
    assert run("replay", ["--status", "dead", "--replay-id", replay_id], url=outbox.url) == 0
    printed = capsys.readouterr()
    assert f"its id is {replay_id}" in printed.err
    assert printed.out.startswith("3 events inserted, 3 by this replay in all; ")
    assert run("replay", ["--type", "t", "--replay-id", replay_id], url=outbox.url) == 2
    assert f"--replay-id: {replay_id} is a replay of " in capsys.readouterr().err


def test_what_nats_would_drop_is_left_to_a_later_run(outbox: Outbox, replay: Ask) -> None:
    fill(outbox, "DELIVERED", 10, age=30 * 60 - 3600)  # the first half an hour ago
    fill(outbox, "DEAD", 2, age=60 - 3600)
    window = ("--nats-duplicate-window", "1h", "--from", "1d")
    assert replay(*window, "--dry-run")["recent"] == 1
    done = replay(*window, code=1)
    assert (done["inserted"], done["recent"]) == (11, 1)
    outbox.database.run(
        "UPDATE openoutbox_events SET delivered_at = now() - interval '2 hours' WHERE status = 'DELIVERED'"
    )
    done = replay("--replay-id", done["replay_id"], *window)
    assert (done["inserted"], done["total"], done["recent"]) == (1, 12, 0)


def test_a_rate_spaces_the_batches(outbox: Outbox, replay: Ask) -> None:
    fill(outbox, "DEAD", 40)
    assert replay("--status", "dead", "--rate", "10")["inserted"] == 40
    moments = sorted(row[0] for row in outbox.rows("DISTINCT available_at"))
    assert len(moments) >= 4
    assert all((later - earlier).total_seconds() > 0.9 for earlier, later in pairwise(moments))
    sizes = outbox.database.run("SELECT count(*) FROM openoutbox_events GROUP BY available_at")
    assert max(count for (count,) in sizes) <= 10


def test_an_archive_that_is_not_there_is_one_line(
    spark: SparkSession, outbox: Outbox, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("replay", ["--type", "t", "--archive", "/nowhere"], url=outbox.url) == 1
    assert "error: /nowhere: there is no archive" in capsys.readouterr().err


def test_its_help_has_examples() -> None:
    done = CliRunner().invoke(app, ["spark", "replay", "--help"])
    assert done.exit_code == 0, done.output
    assert "examples:" in done.stdout
