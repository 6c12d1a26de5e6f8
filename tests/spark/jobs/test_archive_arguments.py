"""The arguments of ``archive``: what is made of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName
from relay.spark.jobs.archive.arguments import read_archive_arguments
from relay.spark.jobs.archive.steps import ArchiveOptions

URL = "postgresql://spark:secret@db:5432/shop"


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


def test_without_an_outbox_it_says_where_to_name_it() -> None:
    with pytest.raises(ConfigError, match="--url or --url-file: missing"):
        read_archive_arguments("archive", ["/data/outbox"])
