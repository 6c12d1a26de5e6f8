"""The job ``archive``: what it moves, and that stopped anywhere and run again it neither loses nor repeats a row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.files import Archive, read_archive
from relay.spark.jobs.archive.job import run
from relay.spark.jobs.archive.steps import archive_run
from relay.spark.jobs.folder import ArchiveError
from relay_cli.app import app
from tests.spark.history import Ask, a_past, answering, fill, ids, in_archive, in_both, in_table
from tests.spark.pages import description
from tests.support.documents import blocks
from tests.support.fixtures.outbox import Outbox


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the archive is; a name that needs care."""
    return tmp_path / "the archive = 100%"


@pytest.fixture
def archive(spark: SparkSession, outbox: Outbox, folder: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """``archive("--keep")`` runs the job."""
    ask = answering(run, "archive", outbox, capsys)
    return lambda *arguments, code=0: ask(str(folder), *arguments, code=code)


def options(outbox: Outbox, folder: Path, statuses: tuple[str, ...] = ("DELIVERED", "DEAD")) -> ArchiveArguments:
    return ArchiveArguments(url=outbox.url, path=str(folder), statuses=statuses)


def test_old_rows_move_as_they_are_and_others_stay(
    spark: SparkSession, outbox: Outbox, folder: Path, archive: Ask
) -> None:
    a_past(outbox)
    before = in_table(outbox)
    dry = archive("--dry-run")
    assert (dry["rows"], {each["status"] for each in dry["found"]}) == (120, {"DELIVERED", "DEAD"})
    assert not folder.exists()
    done = archive("--max-connections", "2", "--batch-rows", "7")
    assert (done["archived"], done["deleted"], done["left"]) == (120, 120, 0)
    line = description(spark, f"openoutbox archive {done['run']}: ")
    assert line.endswith(f": 120 archived, {done['files']} files, 120 deleted, 0 left")
    assert len(in_table(outbox)) == len(before) - 120
    assert in_both(spark, outbox, folder) == before
    rows = read_archive(spark, str(folder)).select("event_type", "day", "delivered_at", "updated_at").collect()
    assert {row["event_type"] for row in rows} >= {"orders/odd = {name} %", "long" * 40}
    assert len({row["day"] for row in rows}) > 1
    files = list(folder.glob("run=*/day=*/type=*/*.parquet"))
    assert len(files) == done["files"]
    first = min(row["day"] for row in rows)
    assert 0 < read_archive(spark, str(folder), last_day=first).count() < 120
    fill(outbox, "DEAD", 3)
    fill(outbox, "DELIVERED", 2)
    assert archive("--status", "dead")["archived"] == 3
    assert archive("--status", "delivered", "--older-than", "9d")["archived"] == 0
    assert len(in_archive(spark, folder)) == 123
    (shown,) = [block for block in blocks("docs/spark-archive.md") if block.language == "python"]
    exec(shown.adapted({"/data/outbox": str(folder)}).text, {"spark": spark})


def test_the_next_run_finishes_or_discards_a_run_that_stopped_after_any_step(
    spark: SparkSession, outbox: Outbox, folder: Path, archive: Ask
) -> None:
    """The first run stops after one step, the second one after two, and so on; the last one archives other rows."""
    a_past(outbox, 20)
    before = in_table(outbox)
    stopped, discarded, recovered = [], [], []
    for steps in range(1, 6):
        statuses = ("DELIVERED",) if steps < 5 else ("DEAD",)
        with archive_run(spark, options(outbox, folder, statuses)) as run_:
            for step in run_.steps()[:steps]:
                step()
        assert set(in_both(spark, outbox, folder)) == set(before), f"after {steps} steps"
        stopped.append(run_.progress.run)
        discarded.append(run_.progress.discarded)
        recovered.append(run_.progress.recovered)
    assert discarded == [[], [], [stopped[1]], [stopped[2]], []]
    assert recovered == [[], [], [], [], [stopped[3]]]
    done = archive()
    assert (done["archived"], done["recovered"], done["discarded"]) == (0, [stopped[4]], [])
    assert in_both(spark, outbox, folder) == before
    assert len(in_table(outbox)) == 20


def lose_lock(outbox: Outbox) -> None:
    """End the connection that holds the lock, as a restart of the database does."""
    outbox.database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )


def test_a_run_that_loses_its_lock_goes_on_unless_another_one_has_taken_over(
    spark: SparkSession, outbox: Outbox, folder: Path, archive: Ask
) -> None:
    a_past(outbox, 20)
    before = in_table(outbox)
    with archive_run(spark, options(outbox, folder)) as run_:
        write = run_.write

        def write_and_lose_lock() -> None:
            write()
            lose_lock(outbox)

        run_.write = write_and_lose_lock  # type: ignore[method-assign]
        assert run_.run().deleted == 40
    assert in_both(spark, outbox, folder) == before
    fill(outbox, "DELIVERED", 5)
    with archive_run(spark, options(outbox, folder)) as run_:
        verify = run_.verify

        def verify_beside_another_run() -> None:
            verify()
            lose_lock(outbox)
            archive()

        run_.verify = verify_beside_another_run  # type: ignore[method-assign]
        with pytest.raises(ArchiveError, match="another run has taken over its files"):
            run_.run()
    assert len(in_archive(spark, folder)) == 45


def test_rows_that_change_before_they_are_deleted_stay_and_are_archived_later_once(
    spark: SparkSession, outbox: Outbox, folder: Path, archive: Ask
) -> None:
    a_past(outbox, 20)
    everything = ids(in_table(outbox))
    with archive_run(spark, options(outbox, folder)) as run_:
        recover, write, verify, publish, delete, close = run_.steps()
        for step in (recover, write, verify, publish):
            step()
        replayed, touched, *_ = ids(in_archive(spark, folder))
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
    assert ids(in_both(spark, outbox, folder)) == everything
    outbox.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '8 days'"
        f" WHERE event_id = '{replayed}'"
    )
    assert archive()["archived"] == 2
    assert ids(in_both(spark, outbox, folder)) == everything


def test_with_keep_rows_stay_in_the_table_and_are_archived_once(
    spark: SparkSession, outbox: Outbox, folder: Path, archive: Ask
) -> None:
    a_past(outbox, 20)
    before = in_table(outbox)
    assert archive("--keep")["archived"] == 40
    assert in_table(outbox) == before
    fill(outbox, "DEAD", 3)
    assert archive("--keep")["archived"] == 3
    assert len(in_archive(spark, folder)) == 43
    before = in_table(outbox)
    done = archive()
    assert (done["archived"], len(done["recovered"])) == (0, 2)
    assert in_both(spark, outbox, folder) == before


def test_files_that_are_not_what_was_written_are_never_relied_on(
    spark: SparkSession, outbox: Outbox, folder: Path, archive: Ask
) -> None:
    a_past(outbox, 20)
    before = in_table(outbox)
    with archive_run(spark, options(outbox, folder)) as run_:
        recover, write, verify, *_ = run_.steps()
        recover()
        write()
        next(folder.glob("run=*/day=*/type=*/*.parquet")).unlink()
        with pytest.raises(ArchiveError, match="nothing was deleted, run it again"):
            verify()
    assert in_both(spark, outbox, folder) == before
    archive()
    assert in_both(spark, outbox, folder) == before


def test_one_archiving_of_an_outbox_at_a_time_and_one_outbox_for_each_archive(
    spark: SparkSession, outbox: Outbox, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with archive_run(spark, options(outbox, folder)):
        assert run("archive", [str(folder)], url=outbox.url) == 1
    assert "is being archived by another run" in capsys.readouterr().err
    Archive.at(spark, str(folder)).belongs_to("another/public.openoutbox_events")
    assert run("archive", [str(folder)], url=outbox.url) == 1
    assert "is the archive of another/public.openoutbox_events, not of " in capsys.readouterr().err
    with pytest.raises(ArchiveError, match="there is no archive"):
        read_archive(spark, str(folder / "elsewhere"))


def test_a_table_that_is_not_there_is_one_line(
    spark: SparkSession, outbox: Outbox, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("archive", [str(folder), "--table", "nowhere"], url=outbox.url) == 1
    assert capsys.readouterr().err == "error: there is no table nowhere, or this role may not see its schema\n"
    assert not folder.exists()


def test_relay_cli_takes_the_outbox_from_the_environment(spark: SparkSession, outbox: Outbox, folder: Path) -> None:
    """In this process; tests/spark/test_documents.py runs a job of relay-cli as a process of its own."""
    a_past(outbox, 10)
    before = in_table(outbox)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")  # Spark's default: the job enables it
    done = CliRunner().invoke(app, ["spark", "archive", str(folder), "--json"], env={"STORAGE_URL": outbox.pruner_url})
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["deleted"] == 20
    assert in_both(spark, outbox, folder) == before


def test_its_help_has_examples() -> None:
    done = CliRunner().invoke(app, ["spark", "archive", "--help"])
    assert done.exit_code == 0, done.output
    assert "examples:" in done.stdout
