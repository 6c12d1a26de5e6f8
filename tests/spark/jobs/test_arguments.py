"""A job's description: the command line made from it, and its values from the environment of ``relay-cli spark``.

What each job accepts is in the other ``test_*_arguments.py``.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.arguments import (
    FLAG,
    SPARK_OPTION,
    Arguments,
    CommandLine,
    choice,
    count,
    names,
    option,
    outbox_table,
    outbox_url,
    pairs,
)
from relay.spark.jobs.ingest.arguments import IngestArguments
from relay.spark.jobs.reconcile.arguments import ReconcileArguments
from relay.spark.jobs.replay.arguments import ReplayArguments
from relay.spark.jobs.report.arguments import ReportArguments
from tests.cli.running import environment

JOBS = (IngestArguments, ArchiveArguments, ReplayArguments, ReconcileArguments, ReportArguments)
WITHOUT_PYSPARK = "import sys; sys.modules['pyspark'] = None; sys.modules['py4j'] = None; "


MODULE = "import runpy; runpy.run_module('relay.spark.jobs', run_name='__main__', alter_sys=True)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(Arguments):
    """Do something."""

    name: ClassVar[str] = "example"
    examples: ClassVar[str] = "examples: none\n"

    words: tuple[str, ...] = option("words", names("A,B"))
    size: int = option("a size", count(9), default="3", group="sizes")
    mode: str = option("a mode", choice("fast", "slow"), default="slow")
    columns: tuple[tuple[str, str], ...] = option("columns", pairs("NAME=COLUMN"))
    options: tuple[tuple[str, str], ...] = option("options", SPARK_OPTION, flag="--option")
    quiet: bool = option("print nothing", FLAG)
    offline: bool = option("connect to nothing", FLAG, replaces_environment=True)
    url: str | None = outbox_url(group="sizes")
    table: TableName = outbox_table(group="sizes")  # noqa: RUF009 - makes a field


def line(*arguments: str) -> CommandLine[Example]:
    return CommandLine(Example, "example", arguments)


def test_each_kind_has_its_value() -> None:
    arguments = ["--words", "a, b,", "--size", "9", "--mode", "FAST", "--columns", "a=b,c=d=e", "--quiet"]
    assert line(*arguments, "--option", "a=1", "--option", "a=2", "--option", "a=1").read({}) == Example(
        words=("a", "b"),
        size=9,
        mode="fast",
        columns=(("a", "b"), ("c", "d=e")),
        options=(("a", "2"), ("a", "1")),
        quiet=True,
    )


def test_a_value_may_hold_a_secret_and_is_not_in_the_repr() -> None:
    job = line("--option", "password=hush", "--url", "postgresql://u:hush@h/d").read({})
    assert dict(job.options) == {"password": "hush"}
    assert "hush" not in repr(job)


def test_the_environment_has_what_is_left_out() -> None:
    assert line().variables() == {"url": "STORAGE_URL", "table": "STORAGE_TABLE_NAME"}
    assert line("--table", "own").variables() == {"url": "STORAGE_URL"}
    assert line("--table", "own").read({"table": "other"}).table == TableName("own")
    assert line().read({"table": "other"}).table == TableName("other")


@pytest.mark.parametrize("arguments", [["--offline"], ["--url", "postgresql://h/d"], ["--url-file", "f"]])
def test_an_option_may_replace_the_environment(arguments: list[str]) -> None:
    assert line(*arguments).variables() == {}


def test_a_replaced_environment_is_ignored() -> None:
    assert line("--offline").read({"table": "other"}).table == TableName()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "10"], "--size: '10' is not a number from 1 to 9"),
        (["--mode", "lazy"], "--mode: 'lazy' is not one of fast, slow"),
        (["--columns", "a"], "--columns: 'a' is not NAME=VALUE"),
        (["--option", "=b"], "--option: '=b' is not NAME=VALUE"),
        (["--url-file", "/nowhere"], "--url-file: /nowhere: No such file or directory"),
    ],
)
def test_an_error_names_the_option(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        line(*arguments).read({})
    assert str(raised.value) == message


def test_a_file_that_is_not_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "url").write_bytes(b"\xff\xfehush")
    with pytest.raises(ConfigError, match=r"--url-file: .*url: is not UTF-8$"):
        line("--url-file", str(tmp_path / "url")).read({})


@pytest.mark.parametrize("job", JOBS)
def test_the_help_shows_every_option(job: type[Arguments], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        CommandLine(job, f"relay-cli spark {job.name}", ["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: relay-cli spark {job.name} ")
    assert shown.rstrip().rpartition("\n")[2].startswith("exit codes: 0 ")
    assert "--table" in shown or "--log-schema" in shown
    assert "(default: None)" not in shown


def test_the_help_has_defaults_and_variables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        line("--help")
    shown = " ".join(capsys.readouterr().out.split())
    assert "a size (default: 3)" in shown
    assert "the outbox table (default: openoutbox_events; relay-cli: STORAGE_TABLE_NAME)" in shown


def run(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[Any]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK + program, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_descriptions_need_no_pyspark() -> None:
    modules = ", ".join(f"relay.spark.jobs.{job.name}.arguments" for job in JOBS)
    ended = run(f"import {modules}")
    assert ended.returncode == 0, ended.stderr


def test_relay_cli_shows_a_jobs_help_without_pyspark() -> None:
    ended = run("from relay_cli.main import main; main()", "spark", "archive", "--help")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("usage: relay-cli spark archive ")
    assert "examples:" in ended.stdout


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_jobs_module_shows_its_help_without_pyspark(job: type[Arguments]) -> None:
    ended = run(MODULE, job.name, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"usage: {job.name}.py ")


def test_a_jobs_module_names_the_extra_that_it_needs() -> None:
    ended = run(MODULE, "archive", "folder")
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "[spark-local]'" in ended.stderr


@pytest.mark.parametrize("job", ["archive", "report"])
def test_relay_cli_names_the_extra_that_a_job_needs(job: str) -> None:
    source = {"archive": ["folder", "--url", "postgresql://u@h/d"], "report": ["--output", "folder", "--archive", "a"]}
    ended = run("from relay_cli.main import main; main()", "spark", job, *source[job])
    assert ended.returncode == 2
    assert "pip install ./client '.[spark-local]'" in " ".join(ended.stderr.split())
