"""The arguments of ``archive``: their values, and the errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.arguments import CommandLine

URL = "postgresql://spark:secret@db:5432/shop"


def read(*arguments: str, **environment: str) -> ArchiveArguments:
    return CommandLine(ArchiveArguments, "archive", arguments).read(environment)


def test_an_archive_has_defaults() -> None:
    job = read("/data/outbox", url=URL, table="own.outbox")
    assert job == ArchiveArguments(path="/data/outbox", url=URL, table=TableName("outbox", "own"))
    assert (job.older_than, job.statuses) == (7 * 86_400, ("DELIVERED", "DEAD"))
    assert (job.format, job.keep, job.dry_run, job.as_json) == (None, False, False, False)
    assert (job.max_connections, job.batch_rows) == (4, 1000)


def test_options_become_values(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(URL + "\n")
    arguments = [
        "a",
        "--url-file",
        str(tmp_path / "url"),
        "--older-than",
        "0",
        "--status",
        "dead",
        "--keep",
        "--format",
        "Delta",
    ]
    job = read(*arguments, "--dry-run", "--max-connections", "2", "--batch-rows", "7", url="postgresql://other")
    assert job == ArchiveArguments(
        path="a",
        format="delta",
        url=URL,
        older_than=0.0,
        statuses=("DEAD",),
        keep=True,
        dry_run=True,
        max_connections=2,
        batch_rows=7,
    )
    assert "secret" not in repr(job)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--older-than", "soon"], "--older-than: 'soon' is not a duration"),
        (["--batch-rows", "0"], "--batch-rows: '0' is not a number from 1 to 100000"),
        (["--max-connections", "many"], "--max-connections: 'many' is not a number from 1 to 1000"),
        (["--format", "orc"], "--format: 'orc' is not one of parquet, delta, iceberg"),
        (["--status", "pending"], "--status: 'pending' is not one of delivered, dead"),
        (["--url", "mysql://there"], "--url: not a PostgreSQL URL"),
        (["--url-file", "/nowhere"], "--url-file: /nowhere: No such file or directory"),
        (["--table", "a.b.c"], "--table: 'a.b.c' is not a table name"),
    ],
)
def test_invalid_values_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        read("/data/outbox", *arguments, url=URL)


def test_a_missing_outbox_is_named() -> None:
    with pytest.raises(ConfigError, match="--url or --url-file: missing"):
        read("/data/outbox")
