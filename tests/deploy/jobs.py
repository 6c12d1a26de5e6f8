"""The jobs of ``deploy``: what each runs, with which variables, and whose credentials it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"


LOG_JOBS = (["relay-cli", "log", "maintain", "--days=90"],)
"""What the chart's CronJob for the delivery log runs, with the values of ``ci/nats-values.yaml``."""


class Job(NamedTuple):
    """One program that ``deploy`` starts."""

    name: str
    command: tuple[str, ...]
    variables: dict[str, str]
    credentials: str
    """The Secret, the credential's file or the database user that its STORAGE_URL comes from."""


def jobs() -> Iterator[Job]:
    """Every relay, migration and prune of ``deploy``."""
    yield from _kubernetes()
    yield from _compose()
    yield from _systemd()


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The pods of ``deploy/kubernetes``, by the kind and name of what creates them."""
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            spec = document.get("spec", {})
            name = f"{document['kind']} {document['metadata']['name']}"
            if document["kind"] == "CronJob":
                yield name, spec["jobTemplate"]["spec"]["template"]["spec"]
            elif document["kind"] in ("Deployment", "Job"):
                yield name, spec["template"]["spec"]


def _kubernetes() -> Iterator[Job]:
    for name, pod in pods():
        (container,) = pod["containers"]
        (source,) = container["envFrom"]
        variables = {one["name"]: one["value"] for one in container.get("env", []) if "value" in one}
        yield Job(f"kubernetes {name}", (*container.get("command", ["relay"]),), variables, source["secretRef"]["name"])


def _compose() -> Iterator[Job]:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for name, service in services.items():
        if service["image"] == "openoutbox-relay":
            variables = dict(service["environment"])
            user = urlsplit(variables.pop("STORAGE_URL")).username or ""
            command = service.get("entrypoint", ["relay"])
            if command[:2] == ["sh", "-c"]:
                (line,) = re.findall(r"relay-cli [^;]+", command[2])
                command = shlex.split(line)
            yield Job(f"compose {name}", (*command,), variables, user)


def _systemd() -> Iterator[Job]:
    for path in sorted((DEPLOY / "systemd").glob("*.service")):
        unit = path.read_text(encoding="utf-8")
        (line,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
        (file,) = re.findall(r"^LoadCredential=storage-url:(.+)$", unit, re.MULTILINE)
        program, *arguments = shlex.split(line)
        yield Job(f"systemd {path.name}", (program.rpartition("/")[2], *arguments), {}, file)
