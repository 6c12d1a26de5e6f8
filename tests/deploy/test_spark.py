"""The files of ``deploy/spark``: what they give to the jobs are arguments that exist."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.arguments import CommandLine
from relay.spark.jobs.ingest.arguments import IngestArguments
from relay.spark.jobs.reconcile.arguments import ReconcileArguments
from relay.spark.jobs.replay.arguments import ReplayArguments
from relay.spark.jobs.report.arguments import ReportArguments
from tests.support.paths import ROOT
from tests.support.servers.helm import validate

SPARK = ROOT / "deploy" / "spark"
URL = "postgresql://database"
JOBS: dict[str, type[Any]] = {
    job.name: job for job in (IngestArguments, ArchiveArguments, ReplayArguments, ReconcileArguments, ReportArguments)
}
SUBMITTED = {
    "ingest": ["/data", "--event-type", "t"],
    "archive": ["/data/outbox", "--url-file", "url"],
    "replay": ["--type", "t", "--url-file", "url"],
    "reconcile": ["--kafka", "broker:9092", "--output", "/out"],
    "report": ["--since", "2026-03-10", "--output", "/out"],
}
FALLBACK = {"ingest": {"url": URL}, "reconcile": {"url": URL}, "report": {"log_url": URL}}


@pytest.mark.parametrize("kind", ["standalone", "yarn", "kubernetes"])
@pytest.mark.parametrize("job", JOBS)
def test_the_lines_for_clusters_pass_arguments_that_exist(job: str, kind: str, tmp_path: Path) -> None:
    stand_in = tmp_path / "spark-submit"
    stand_in.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    stand_in.chmod(0o755)
    (tmp_path / "url").write_text(URL)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MASTER": "m", "IMAGE": "i", "PACKAGES": "kafka:source:1"}
    env |= {} if job == "ingest" else {"JOB": job}
    command = [str(SPARK / "submit.sh"), kind, *SUBMITTED[job]]
    lines = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    (place,) = [place for place, line in enumerate(lines) if line.endswith(f"/{job}.py")]
    assert lines[lines.index("--packages") + 1] == "kafka:source:1"
    assert f"openoutbox-{job}" in lines
    secret = str(tmp_path / "url")
    arguments = [secret if argument in ("url", "/secrets/url") else argument for argument in lines[place + 1 :]]
    read = CommandLine(JOBS[job], f"{job}.py", arguments).read(FALLBACK.get(job, {}))
    if job == "ingest":
        assert read.inputs == ("/data",)
    if job in ("reconcile", "report"):
        assert read.output == "/out"


@pytest.mark.parametrize("job", JOBS)
def test_the_programs_for_spark_submit_exist(job: str) -> None:
    assert f'start("{job}", ' in (SPARK / f"{job}.py").read_text(encoding="utf-8")


MANIFEST = SPARK / "kubernetes.yaml"


def pods() -> list[dict[str, Any]]:
    """The pods of the CronJobs."""
    documents = yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
    return [each["spec"]["jobTemplate"]["spec"]["template"]["spec"] for each in documents if each["kind"] == "CronJob"]


@pytest.mark.parametrize("name", ["ingest", "archive"])
def test_the_kubernetes_example_passes_arguments_that_exist(name: str, tmp_path: Path) -> None:
    job = f"/opt/openoutbox/{name}.py"
    (submitted,) = [command for pod in pods() if job in (command := pod["containers"][0]["args"])]
    secret = tmp_path / "url"
    secret.write_text(URL)
    arguments = submitted[submitted.index(job) + 1 :]
    arguments = [str(secret) if argument == "/secrets/url" else argument for argument in arguments]
    assert CommandLine(JOBS[name], f"{name}.py", arguments).read({}).url == URL


def test_the_drivers_of_the_kubernetes_example_have_what_their_command_names() -> None:
    """Variables in arguments, the secret's file, the account; and memory for the JVM with Python beside it."""
    documents = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
    names = {(each["kind"], each["metadata"]["name"]) for each in documents}
    for pod in pods():
        (container,) = pod["containers"]
        variables = {each["name"] for each in container["env"]}
        assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) == variables
        (volume,) = pod["volumes"]
        assert ("Secret", volume["secret"]["secretName"]) in names
        assert container["volumeMounts"][0] == {"name": volume["name"], "mountPath": "/secrets", "readOnly": True}
        assert ("ServiceAccount", pod["serviceAccountName"]) in names
        assert "spark.driver.memory=1g" in container["args"]
        assert container["resources"]["limits"]["memory"] == "2Gi"
        assert container["args"][container["args"].index("--deploy-mode") + 1] == "client"


def test_the_image_of_the_kubernetes_example_has_a_python_for_the_wheels_and_the_jobs() -> None:
    """Spark's own image for Python has 3.10, and its jobs could not be imported."""
    image = (SPARK / "Dockerfile").read_text(encoding="utf-8")
    ((minor,),) = [re.findall(r"uv venv --python 3\.(\d+) ", image)]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert f">=3.{minor}" >= needed
    assert "ENV PYSPARK_PYTHON=/opt/openoutbox/env/bin/python PYSPARK_DRIVER_PYTHON=/opt/openoutbox/env/bin/py" in image
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "!deploy/spark/*.py" in ignored
    (user,) = {pod["securityContext"]["runAsUser"] for pod in pods()}
    assert image.endswith(f"USER {user}\n")


@pytest.mark.packages
def test_the_kubernetes_example_is_valid_by_kubernetes_own_schemas() -> None:
    assert validate(MANIFEST) == {"invalid": [], "unknown": []}
