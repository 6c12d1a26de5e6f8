"""The chart as Kubernetes would run it: the environment, the files and the command of each of its containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.deploy.jobs import DEPLOY
from tests.support.servers.helm import render

CHART = DEPLOY / "helm" / "openoutbox-relay"
_ROOT = "/etc/openoutbox"


class ContainerOfChart(NamedTuple):
    """One container, to be run as a process."""

    command: tuple[str, ...]
    """``relay`` where it runs what the image does."""
    variables: dict[str, str]


def containers(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The containers of a document that makes pods, each with its pod."""
    spec = document.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template", {})
    pod = template.get("spec", {})
    for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
        yield container, pod


def run_by_the_chart(
    values: dict[str, Any], secrets: Mapping[str, Mapping[str, str]], folder: Path
) -> dict[str, ContainerOfChart]:
    """Every container by its name. ``folder`` takes the place of /etc/openoutbox, with the mounted Secrets in it."""
    (answer,) = render(CHART, [values])
    assert answer.get("lint") == [], answer
    documents = [each for text in answer["files"].values() for each in filter(None, yaml.safe_load_all(text))]
    found = {}
    for container, pod in (pair for document in documents for pair in containers(document)):
        volumes = {volume["name"]: volume["secret"]["secretName"] for volume in pod.get("volumes", [])}
        for mount in container.get("volumeMounts", []):
            place = Path(_within(mount["mountPath"], folder))
            place.mkdir(parents=True, exist_ok=True)
            for name, content in secrets[volumes[mount["name"]]].items():
                (place / name).write_text(_within(content, folder), encoding="utf-8")
        (source,) = container["envFrom"]
        own = {one["name"]: one["value"] for one in container.get("env", []) if "value" in one}
        variables = {**secrets[source["secretRef"]["name"]], **own}
        found[container["name"]] = ContainerOfChart(
            (*container.get("command", ["relay"]),),
            {name: _within(value, folder) for name, value in variables.items()},
        )
    return found


def _within(text: str, folder: Path) -> str:
    return text.replace(_ROOT, str(folder))
