"""The job ``archive``: what it moves, and that stopped anywhere and run again it neither loses nor repeats a row.

What holds for every format of an archive is tested for each of them, by the fixture ``place``: here for Parquet, by
`make tables` for Delta Lake and Iceberg too, on a Spark that they support.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.formats import open_archive, read_archive
from relay.spark.jobs.archive.job import run
from relay.spark.jobs.archive.model import COLUMNS
from relay.spark.jobs.archive.steps import archive_run
from relay.spark.jobs.errors import ArchiveError
from relay.spark.jobs.javaerrors import JAVA_ERRORS
from relay.spark.jobs.parquet import ROW_GROUP_BYTES
from relay.spark.jobs.reconcile.job import run as run_reconcile
from relay.spark.jobs.replay.job import run as run_replay
from relay.spark.jobs.report.job import run as run_report
from relay_cli.app import app
from tests.spark.history import Ask, a_past, answering, fill, ids, in_archive, in_both, in_table
from tests.spark.jobs.test_parquet import INCOMPRESSIBLE
from tests.spark.pages import description
from tests.support.documents import blocks
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.spark import TABLE_FORMATS

FEW = 4
"""Old rows of each status where how many there are does not matter: each type and day is a file."""


@dataclass(frozen=True)
class Place:
    """Where an archive is, and its format."""

    format: str
    name: str
    """The folder, with a name that needs care; of Iceberg the table."""
    folder: Path
    """The folder with all files."""

    def files(self) -> list[Path]:
        """The files that hold rows, or held them."""
        return list(self.folder.glob("**/run=*/day=*/**/*.parquet"))


@pytest.fixture(params=["parquet", *TABLE_FORMATS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The place of an archive in each format that the installed Spark can have."""
    if request.param == "iceberg":
        name = f"lake.ops_{uuid4().hex}.outbox"
        warehouse = request.getfixturevalue("spark").conf.get("spark.sql.catalog.lake.warehouse")
        return Place(request.param, name, Path(warehouse, *name.split(".")[1:]))
    folder = tmp_path / "the archive = 100%"
    return Place(request.param, str(folder), folder)


in_tables = pytest.mark.parametrize("place", TABLE_FORMATS, indirect=True)
"""Skipped on a Spark that no format of tables supports."""


@pytest.fixture
def archive(spark: SparkSession, outbox: Outbox, place: Place, capsys: pytest.CaptureFixture[str]) -> Ask:
    """``archive("--keep")`` runs the job."""
    ask = answering(run, "archive", outbox, capsys)
    return lambda *arguments, code=0: ask(place.name, "--format", place.format, *arguments, code=code)


@pytest.fixture
def options(outbox: Outbox, place: Place) -> ArchiveArguments:
    """The arguments of a run whose steps a test calls."""
    return ArchiveArguments(url=outbox.url, path=place.name, format=place.format)


def test_old_rows_move_as_they_are_and_others_stay(
    spark: SparkSession, outbox: Outbox, place: Place, archive: Ask
) -> None:
    a_past(outbox)
    before = in_table(outbox)
    dry = archive("--dry-run")
    assert (dry["rows"], {each["status"] for each in dry["found"]}) == (120, {"DELIVERED", "DEAD"})
    assert not place.folder.exists()
    done = archive("--max-connections", "2", "--batch-rows", "7")
    assert (done["archived"], done["deleted"], done["left"]) == (120, 120, 0)
    line = description(spark, f"openoutbox archive {done['run']}: ")
    assert line.endswith(f": 120 archived, {done['files']} files, 120 deleted, 0 left")
    assert len(in_table(outbox)) == len(before) - 120
    assert in_both(spark, outbox, place.name) == before
    rows = read_archive(spark, place.name).select("event_type", "day", "delivered_at", "updated_at").collect()
    assert {row["event_type"] for row in rows} >= {"orders/odd = {name} %", "long" * 40}
    assert len({row["day"] for row in rows}) > 1
    assert len(place.files()) == done["files"]
    first = min(row["day"] for row in rows)
    assert 0 < read_archive(spark, place.name, last_day=first).count() < 120
    fill(outbox, "DEAD", 3)
    fill(outbox, "DELIVERED", 2)
    assert archive("--status", "dead")["archived"] == 3
    assert archive("--status", "delivered", "--older-than", "9d")["archived"] == 0
    assert len(in_archive(spark, place.name)) == 123
    (shown,) = [block for block in blocks("docs/guide/spark-archive.md") if block.language == "python"]
    exec(shown.adapted({"/data/outbox": place.name}).text, {"spark": spark})


def test_the_next_run_finishes_or_discards_a_run_that_stopped_after_any_step(
    spark: SparkSession, outbox: Outbox, place: Place, archive: Ask, options: ArchiveArguments
) -> None:
    """The first run stops after one step, the second one after two, and so on; the last one archives other rows."""
    a_past(outbox, FEW)
    before = in_table(outbox)
    stopped, discarded, recovered = [], [], []
    for steps in range(1, 6):
        statuses = ("DELIVERED",) if steps < 5 else ("DEAD",)
        with archive_run(spark, replace(options, statuses=statuses)) as run_:
            for step in run_.steps()[:steps]:
                step()
        assert set(in_both(spark, outbox, place.name)) == set(before), f"after {steps} steps"
        stopped.append(run_.progress.run)
        discarded.append(run_.progress.discarded)
        recovered.append(run_.progress.recovered)
    assert discarded == [[], [], [stopped[1]], [stopped[2]], []]
    assert recovered == [[], [], [], [], [stopped[3]]]
    done = archive()
    assert (done["archived"], done["recovered"], done["discarded"]) == (0, [stopped[4]], [])
    assert in_both(spark, outbox, place.name) == before
    assert len(in_table(outbox)) == 20


def lose_lock(outbox: Outbox) -> None:
    """End the connection that holds the lock, as a restart of the database does."""
    outbox.database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )


def test_a_run_that_loses_its_lock_goes_on_unless_another_one_has_taken_over(
    spark: SparkSession, outbox: Outbox, place: Place, archive: Ask, options: ArchiveArguments
) -> None:
    a_past(outbox, FEW)
    before = in_table(outbox)
    with archive_run(spark, options) as run_:
        write = run_.write

        def write_and_lose_lock() -> None:
            write()
            lose_lock(outbox)

        run_.write = write_and_lose_lock  # type: ignore[method-assign]
        assert run_.run().deleted == 2 * FEW
    assert in_both(spark, outbox, place.name) == before
    fill(outbox, "DELIVERED", 5)
    with archive_run(spark, options) as run_:
        verify = run_.verify

        def verify_beside_another_run() -> None:
            verify()
            lose_lock(outbox)
            archive()

        run_.verify = verify_beside_another_run  # type: ignore[method-assign]
        with pytest.raises(ArchiveError, match="another run has taken over its rows"):
            run_.run()
    assert len(in_archive(spark, place.name)) == 2 * FEW + 5


def test_rows_that_change_before_they_are_deleted_stay_and_are_archived_later_once(
    spark: SparkSession, outbox: Outbox, place: Place, archive: Ask, options: ArchiveArguments
) -> None:
    a_past(outbox, FEW)
    everything = ids(in_table(outbox))
    with archive_run(spark, options) as run_:
        recover, write, verify, publish, delete, close = run_.steps()
        for step in (recover, write, verify, publish):
            step()
        replayed, touched, *_ = ids(in_archive(spark, place.name))
        outbox.database.run(
            "UPDATE openoutbox_events SET status = 'PENDING', attempts = 0, last_error = NULL, delivered_at = NULL,"
            f" updated_at = now() WHERE event_id = '{replayed}'"
        )
        outbox.database.run(f"UPDATE openoutbox_events SET headers = '{{}}' WHERE event_id = '{touched}'")
        delete()
        delete()  # as when its task is repeated
        close()
    assert run_.progress.left == 2
    assert (outbox.row(replayed)["status"], outbox.row(touched)["headers"]) == ("PENDING", {})
    assert ids(in_both(spark, outbox, place.name)) == everything
    outbox.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '8 days'"
        f" WHERE event_id = '{replayed}'"
    )
    assert archive()["archived"] == 2
    assert ids(in_both(spark, outbox, place.name)) == everything


def test_with_keep_rows_stay_in_the_table_and_are_archived_once(
    spark: SparkSession, outbox: Outbox, place: Place, archive: Ask
) -> None:
    a_past(outbox, FEW)
    before = in_table(outbox)
    assert archive("--keep")["archived"] == 2 * FEW
    assert in_table(outbox) == before
    fill(outbox, "DEAD", 3)
    assert archive("--keep")["archived"] == 3
    assert len(in_archive(spark, place.name)) == 2 * FEW + 3
    before = in_table(outbox)
    done = archive()
    assert (done["archived"], len(done["recovered"])) == (0, 2)
    assert in_both(spark, outbox, place.name) == before


def test_files_that_are_not_what_was_written_are_never_relied_on(
    spark: SparkSession, outbox: Outbox, place: Place, archive: Ask, options: ArchiveArguments
) -> None:
    a_past(outbox, FEW)
    before = in_table(outbox)
    with archive_run(spark, options) as run_:
        recover, write, verify, *_ = run_.steps()
        recover()
        write()
        place.files()[0].unlink()
        with pytest.raises((ArchiveError, *JAVA_ERRORS), match=r"nothing was deleted|FILE_NOT_EXIST|Failed to open"):
            verify()
    assert in_both(spark, outbox, place.name) == before
    archive()
    assert in_both(spark, outbox, place.name) == before


def test_one_archiving_of_an_outbox_at_a_time_and_one_outbox_for_each_archive(
    spark: SparkSession, outbox: Outbox, place: Place, options: ArchiveArguments, capsys: pytest.CaptureFixture[str]
) -> None:
    with archive_run(spark, options):
        assert run("archive", [place.name], url=outbox.url) == 1
    assert "is being archived by another run" in capsys.readouterr().err
    open_archive(spark, place.name, options.format).belongs_to("another/public.openoutbox_events")
    assert run("archive", [place.name], url=outbox.url) == 1
    assert "is the archive of another/public.openoutbox_events, not of " in capsys.readouterr().err
    other = "delta" if options.format == "parquet" else "parquet"
    assert run("archive", [place.name, "--format", other], url=outbox.url) == 1
    assert f"--format {other}: this archive has the format {options.format}" in capsys.readouterr().err
    with pytest.raises(ArchiveError, match="there is no archive"):
        read_archive(spark, f"{place.name}_elsewhere")


@in_tables
def test_the_other_jobs_and_any_reader_of_tables_read_an_archive_in_tables(
    spark: SparkSession, outbox: Outbox, place: Place, archive: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_past(outbox, FEW)
    assert archive()["deleted"] == 2 * FEW
    archived = in_archive(spark, place.name)
    folder = f"{place.name}/events"
    plain = spark.read.table(place.name) if place.format == "iceberg" else spark.read.load(folder, "delta")
    assert sorted(row["event_id"] for row in plain.collect()) == ids(archived)
    delivered = [str(row[0]) for row in archived if row[5] == "DELIVERED"]
    pq.write_table(pa.table({"event_id": delivered[1:]}), tmp_path / "consumer.parquet")
    places = ("--archive", place.name, "--consumer", f"{tmp_path}/consumer.parquet", "--output", f"{tmp_path}/compared")
    assert run_reconcile("reconcile", [*places, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["findings"]["missing"] == 1
    assert run_report("report", ["--archive", place.name, "--output", f"{tmp_path}/report"]) == 0
    assert capsys.readouterr().out.startswith(f"{FEW} delivered, ")
    replay = answering(run_replay, "replay", outbox, capsys)
    assert replay("--archive", place.name, "--status", "dead")["inserted"] == FEW


@in_tables
def test_row_groups_in_tables_are_bounded(spark: SparkSession, outbox: Outbox, place: Place) -> None:
    values = {"payload": INCOMPRESSIBLE, "day": "current_date()"}
    columns = [column.split() for column in f"{COLUMNS}, day date, type string".split(", ")]
    rows = spark.range(0, 3600, 1, 1).selectExpr(
        *(f"CAST({values.get(name, 'NULL')} AS {kind}) AS {name}" for name, kind in columns)
    )
    archive = open_archive(spark, place.name, place.format)
    archive.belongs_to("somebody")
    archive.write("20260131T020000Z-5f0c2a11", rows)
    metadata = [pq.read_metadata(file) for file in place.files()]
    sizes = [each.row_group(number).total_byte_size for each in metadata for number in range(each.num_row_groups)]
    assert sum(sizes) > 2 * ROW_GROUP_BYTES
    assert max(sizes) < 1.25 * ROW_GROUP_BYTES


def test_a_table_that_is_not_there_is_one_line(
    spark: SparkSession, outbox: Outbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("archive", [str(tmp_path / "archive"), "--table", "nowhere"], url=outbox.url) == 1
    assert capsys.readouterr().err == "error: there is no table nowhere, or this role may not see its schema\n"
    assert not (tmp_path / "archive").exists()


def test_relay_cli_takes_the_outbox_from_the_environment(spark: SparkSession, outbox: Outbox, tmp_path: Path) -> None:
    """In this process; tests/spark/jobs/test_connect.py runs a job of relay-cli as a process of its own."""
    a_past(outbox, FEW)
    before = in_table(outbox)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")  # Spark's default: the job enables it
    done = CliRunner().invoke(
        app, ["spark", "archive", str(tmp_path / "archive"), "--json"], env={"STORAGE_URL": outbox.pruner_url}
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["deleted"] == 2 * FEW
    assert in_both(spark, outbox, tmp_path / "archive") == before


def test_its_help_has_examples() -> None:
    done = CliRunner().invoke(app, ["spark", "archive", "--help"])
    assert done.exit_code == 0, done.output
    assert "examples:" in done.stdout
