"""The spark-submit lines of ``relay-cli spark submit``."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.arguments import CommandLine
from relay.spark.jobs.reconcile.arguments import ReconcileArguments
from relay.spark.jobs.submit import Submission
from tests.support.paths import ROOT

ARGUMENTS = ["s3a://lake/outbox", "--url-file", "/secrets/url"]
CLI = [sys.executable, "-c", "from relay_cli.main import main; main()", "spark", "submit"]


def submission(master: str, *arguments: str, **others: str) -> list[str]:
    return Submission(ArchiveArguments, arguments or ARGUMENTS, master, **others).command()


def test_a_standalone_cluster_runs_the_job_of_this_installation() -> None:
    command = submission("spark://host:7077", packages="a:b:1")
    assert command[:5] == ["spark-submit", "--name", "openoutbox-archive", "--master", "spark://host:7077"]
    assert "--deploy-mode" not in command
    assert command[command.index("--packages") + 1] == "a:b:1"
    program, name = command[-5:-3]
    assert name == "archive"
    assert "start(sys.argv[1]" in Path(program).read_text()
    assert command[-3:] == ARGUMENTS


def test_yarn_takes_the_environment_along() -> None:
    command = submission("yarn", environment="env.tar.gz")
    assert command[command.index("--deploy-mode") + 1] == "cluster"
    assert command[command.index("--archives") + 1] == "env.tar.gz#environment"
    assert "spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python" in command


def test_kubernetes_needs_an_image_and_has_the_program_in_it() -> None:
    command = submission("k8s://https://host:6443", image="registry/outbox:1", namespace="outbox")
    assert "spark.kubernetes.container.image=registry/outbox:1" in command
    assert "spark.kubernetes.namespace=outbox" in command
    assert command[-4] == "local:///opt/openoutbox/archive.py"
    with pytest.raises(ConfigError, match="--image: missing"):
        submission("k8s://https://host:6443")


def test_settings_of_the_user_come_last() -> None:
    own = Submission(ArchiveArguments, ARGUMENTS, "yarn", settings=["spark.executor.memoryOverhead=4g"]).command()
    assert [each for each in own if "Overhead" in each][-1] == "spark.executor.memoryOverhead=4g"


def test_what_cannot_be_submitted_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="a URL with a password"):
        submission("yarn", "lake", "--url", "postgresql://u:s3cret@h/d")
    for secret in (
        ("lake", "--url", "postgresql://u@h/d?password=s3cret"),
        ("lake", "--url=postgresql://u@h/d?sslmode=require&pass%77ord=s3cret"),
        ("lake", "--remote", "sc://h:15002/;token=s3cret"),
    ):
        with pytest.raises(ConfigError, match="a URL with a password, or another secret") as refused:
            submission("yarn", *secret)
        assert "s3cret" not in str(refused.value)
    sources = ("--output", "o", "--kafka", "h:1", "--kafka-option", "kafka.sasl.jaas.config=… password='s3cret';")
    with pytest.raises(ConfigError, match="--kafka-options-file"):
        Submission(ReconcileArguments, ("--url", "postgresql://u@h/d?sslmode=require", *sources), "yarn").command()
    Submission(ReconcileArguments, ("--url", "postgresql://u@h/d?sslmode=require", *sources[:4]), "yarn").command()
    with pytest.raises(ConfigError, match="--master: 'mesos' is none of"):
        submission("mesos")
    with pytest.raises(SystemExit):
        submission("yarn", "lake", "--colour", "red")
    assert "unrecognized arguments: --colour red" in capsys.readouterr().err


def test_the_command_prints_the_line_or_runs_it(tmp_path: Path) -> None:
    arguments = [*CLI, "archive", "--master", "yarn", "--conf", "a=b c"]
    dry = subprocess.run(
        [*arguments, "--dry-run", "--", *ARGUMENTS], capture_output=True, text=True, timeout=60, check=True
    )
    words = shlex.split(dry.stdout)
    assert words == Submission(ArchiveArguments, ARGUMENTS, "yarn", settings=["a=b c"]).command()
    stand_in = tmp_path / "spark-submit"
    stand_in.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\nexit 3\n')
    stand_in.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*arguments, "--", *ARGUMENTS], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.splitlines()) == (3, words[1:])


def test_the_airflow_example_submits_jobs_with_arguments_that_exist(tmp_path: Path) -> None:
    """Airflow, a hundred packages, is not installed here: the file is parsed, and so are its commands."""
    tree = ast.parse((ROOT / "deploy/spark/airflow_dag.py").read_text(encoding="utf-8"))
    commands = [
        str(keyword.value.value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "bash_command" and isinstance(keyword.value, ast.Constant)
    ]
    assert len(commands) == 2
    (tmp_path / "url").write_text("postgresql://u@h/d")
    for command in commands:
        words = shlex.split(command.replace("{{ data_interval_start | ds }}", "2026-11-23"))
        assert words[:3] == ["relay-cli", "spark", "submit"]
        dry = subprocess.run([*CLI, "--dry-run", *words[3:]], capture_output=True, text=True, timeout=60, check=True)
        assert dry.stdout.startswith("spark-submit ")
        job = ArchiveArguments if words[3] == "archive" else None
        if job is not None:
            own = [
                str(tmp_path / "url") if word == "/secrets/outbox-url" else word
                for word in words[words.index("--") + 1 :]
            ]
            assert CommandLine(job, "archive", own).read({}).older_than == 7 * 86_400
