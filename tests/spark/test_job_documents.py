"""The commands that the documents of the jobs show are made of arguments that exist, and so are the helps' examples."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from relay.spark.reconcile_arguments import read_reconcile_arguments
from relay.spark.report_arguments import read_report_arguments
from tests.support.documents import blocks
from tests.support.paths import ROOT

Read = Callable[..., Any]
JOBS: dict[str, Read] = {"reconcile": read_reconcile_arguments, "report": read_report_arguments}
FALLBACK = {"reconcile": {"url": "postgresql://there"}, "report": {"log_url": "postgresql://there"}}


def commands(text: str, job: str) -> list[list[str]]:
    """What the lines give to the job."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        for program in (f"{job}.py", f"deploy/spark/{job}.py", job):
            if program in words and "spark" in line:
                found.append(words[words.index(program) + 1 :])
                break
    return found


@pytest.mark.parametrize("job", JOBS)
def test_every_command_can_be_read(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret").write_text("postgresql://u@h/d")
    (tmp_path / "properties").write_text("security.protocol=SASL_SSL")
    instead = {"/secrets/outbox-url": "secret", "/secrets/log-url": "secret", "kafka.properties": "properties"}
    with pytest.raises(SystemExit):
        JOBS[job](job, ["--help"])
    shown = commands(capsys.readouterr().out.partition("examples:")[2], job)
    documented = [each for block in blocks(f"docs/spark-{job}.md") for each in commands(block.text, job)]
    assert len(shown) >= 2
    assert len(documented) >= 2
    for given in [*shown, *documented]:
        words: Sequence[str] = [str(tmp_path / instead[word]) if word in instead else word for word in given]
        assert JOBS[job](job, words, **FALLBACK[job]).output


SUBMITTED = {
    "reconcile": ["--kafka", "broker:9092", "--output", "/out"],
    "report": ["--since", "2026-03-10", "--output", "/out"],
}


@pytest.mark.parametrize("kind", ["standalone", "yarn", "kubernetes"])
@pytest.mark.parametrize("job", JOBS)
def test_the_lines_for_clusters_pass_arguments_that_exist(job: str, kind: str, tmp_path: Path) -> None:
    stand_in = tmp_path / "spark-submit"
    stand_in.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    stand_in.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MASTER": "m", "IMAGE": "i", "JOB": job, "PACKAGES": "kafka:source:1"}
    submit = ROOT / "deploy" / "spark" / "submit.sh"
    done = subprocess.run([submit, kind, *SUBMITTED[job]], env=env, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    (place,) = [place for place, line in enumerate(lines) if line.endswith(f"/{job}.py")]
    assert lines[lines.index("--packages") + 1] == "kafka:source:1"
    (tmp_path / "url").write_text("postgresql://u@h/d")
    given = [str(tmp_path / "url") if word == "/secrets/url" else word for word in lines[place + 1 :]]
    assert JOBS[job](job, given, **FALLBACK[job]).output == "/out"


def test_the_programs_for_spark_submit_are_there() -> None:
    for job in JOBS:
        assert f"relay.spark.{job}" in (ROOT / "deploy" / "spark" / f"{job}.py").read_text(encoding="utf-8")
