"""The arguments of ``archive`` and ``replay``: what is made of them, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName
from relay.spark.archive_arguments import read_archive_arguments
from relay.spark.archiving import ArchiveOptions
from relay.spark.replay_arguments import read_replay_arguments
from relay.spark.replaying import Selection

URL = "postgresql://spark:secret@db:5432/shop"
ID = "019b0a00-0000-7000-8000-000000000000"


def test_an_archive_has_defaults() -> None:
    job = read_archive_arguments("archive", ["/data/outbox"], url=URL, table="own.outbox")
    assert job.options == ArchiveOptions(URL, "/data/outbox", TableName("outbox", "own"))
    assert (job.options.older_than, job.dry_run, job.as_json) == (7 * 86_400, False, False)


def test_an_archive_takes_what_is_given(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(URL + "\n")
    given = ["a", "--url-file", str(tmp_path / "url"), "--older-than", "0", "--status", "dead", "--keep", "--dry-run"]
    job = read_archive_arguments("archive", [*given, "--max-connections", "2", "--batch-rows", "7"])
    assert job.options == ArchiveOptions(URL, "a", TableName(), 0.0, ("DEAD",), True, 2, 7)
    assert job.dry_run
    assert "secret" not in repr(job)


def test_a_replay_takes_what_is_given() -> None:
    given = ["--archive", "a", "--status", "DEAD", "--from", "2d", "--to", "2026-01-31T12:00:00Z", "--type", "t"]
    given += ["--type", "u", "--key", "k", "--tenant", "x", "--tenant-header", "who", "--rate", "2.5", "--json"]
    job = read_replay_arguments("replay", [*given, "--replay-id", ID, "--nats-duplicate-window", "2m"], url=URL)
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert job.options.selection == Selection(("DEAD",), timedelta(days=2), noon, ("t", "u"), ("k",), ("x",), "who")
    assert (job.options.archive, job.options.rate, job.options.replay_id) == ("a", 2.5, UUID(ID))
    assert (job.options.duplicate_window, job.as_json, job.dry_run) == (120.0, True, False)
    assert "secret" not in repr(job)


def test_every_replay_has_an_id_of_its_own() -> None:
    first, second = (read_replay_arguments("replay", ["--type", "t"], url=URL) for _ in range(2))
    assert first.options.replay_id != second.options.replay_id


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--older-than", "soon"], "--older-than: 'soon' is not an age"),
        (["--batch-rows", "0"], "--batch-rows: '0' is not a number from 1 to 100000"),
        (["--max-connections", "many"], "--max-connections: 'many' is not a number from 1 to 1000"),
        (["--url", "mysql://there"], "--url: not a PostgreSQL URL"),
        (["--table", "a.b.c"], "'a.b.c' is not a table name"),
    ],
)
def test_what_an_archive_cannot_mean_is_refused(arguments: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace(".", r"\.")):
        read_archive_arguments("archive", ["/data/outbox", *arguments], url=URL)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "say which events"),
        (["--from", "2026-01-31T12:00:00"], "has no time zone; write for example 2026-01-31T12:00:00Z"),
        (["--to", "later"], "--to: 'later' is neither an age like 2h nor a time"),
        (["--type", "t", "--rate", "0"], "--rate: '0' is not a number of events a second"),
        (["--type", "t", "--rate", "fast"], "--rate: 'fast' is not a number of events a second"),
        (["--type", "t", "--replay-id", "7"], "--replay-id: '7' is not a UUID"),
        (["--type", "t", "--nats-duplicate-window", "2s"], "--nats-duplicate-window: '2s' is not an age"),
    ],
)
def test_what_a_replay_cannot_mean_is_refused(arguments: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace(".", r"\.")):
        read_replay_arguments("replay", arguments, url=URL)


def test_without_an_outbox_both_say_where_to_name_it() -> None:
    with pytest.raises(ConfigError, match="--url or --url-file: missing"):
        read_archive_arguments("archive", ["/data/outbox"])
    with pytest.raises(ConfigError, match="--url or --url-file: missing"):
        read_replay_arguments("replay", ["--type", "t"])


def test_a_selection_is_told_apart_from_another() -> None:
    texts = {
        Selection(types=("t",)).as_text("table"),
        Selection(types=("t",)).as_text("/archive"),
        Selection(keys=("t",)).as_text("table"),
        Selection(types=("t",), since=timedelta(days=2)).as_text("table"),
    }
    assert len(texts) == 4
    assert Selection(types=("t",)).as_text("table") in texts
