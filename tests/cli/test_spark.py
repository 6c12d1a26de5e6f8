"""The variables from which ``relay-cli spark`` takes what a job's arguments leave out. No Spark is needed for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from relay.core.errors import ConfigError
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.arguments import Arguments, CommandLine
from relay.spark.jobs.ingest.arguments import IngestArguments
from relay.spark.jobs.reconcile.arguments import ReconcileArguments
from relay.spark.jobs.replay.arguments import ReplayArguments
from relay.spark.jobs.report.arguments import ReportArguments
from relay_cli.spark import _environment

URL = "postgresql://u@h/d"
OUTBOX = {"url": URL, "table": "own.outbox"}


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "STORAGE_URL": URL,
        "STORAGE_TABLE_NAME": "own.outbox",
        "DELIVERY_LOG_URL": "postgresql://u@h/log",
        "DELIVERY_LOG_SCHEMA": "own_log",
        "PUBLISHER_TYPE": "stdout",
    }.items():
        monkeypatch.setenv(name, value)


def environment(job: type[Arguments], *arguments: str) -> dict[str, str]:
    return _environment(cast("Any", SimpleNamespace(obj=None)), CommandLine(job, job.name, arguments))


@pytest.mark.parametrize(
    ("job", "arguments", "values"),
    [
        (ArchiveArguments, ["a"], OUTBOX),
        (ArchiveArguments, ["a", "--table", "other"], {"url": URL}),
        (ArchiveArguments, ["a", "--url-file", "f"], {}),
        (IngestArguments, ["--event-type", "t"], OUTBOX),
        (IngestArguments, ["--event-type", "t", "--dry-run"], {}),
        (ReplayArguments, ["--type", "t"], OUTBOX | {"nats_duplicate_window": "0.0000m"}),
        (ReplayArguments, ["--type", "t", "--dry-run"], OUTBOX),
        (ReplayArguments, ["--type", "t", "--nats-duplicate-window", "2m"], OUTBOX),
        (ReconcileArguments, ["--output", "o"], OUTBOX),
        (ReconcileArguments, ["--output", "o", "--archive", "a"], {}),
        (ReportArguments, ["--output", "o"], {"log_url": "postgresql://u@h/log", "log_schema": "own_log"}),
        (ReportArguments, ["--output", "o", "--archive", "a"], {}),
    ],
)
def test_a_job_takes_what_its_options_leave_out(
    job: type[Arguments], arguments: list[str], values: dict[str, str]
) -> None:
    assert environment(job, *arguments) == values


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_URL")
    with pytest.raises(ConfigError, match="STORAGE_URL is not set"):
        environment(ArchiveArguments, "a")
