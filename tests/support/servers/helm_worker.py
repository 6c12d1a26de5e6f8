"""A process that has Helm: reads one JSON request from standard input, writes one JSON answer. See ``helm.render``.

A request with ``manifests`` (texts by file name) is answered with ``invalid`` (what a Kubernetes schema refuses) and
``unknown`` (kinds without a schema). An answer about a chart also has ``lint`` (its messages) and ``files`` (rendered
text by template), or ``error`` alone when the values are refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import helm_python  # type: ignore[import-not-found]  # in a folder of its own: helm.packages
import kubernetes_validate  # type: ignore[import-not-found]  # likewise
import yaml


def answer(chart: str, values: dict[str, Any], versions: list[str]) -> dict[str, Any]:
    """Lint strictly, render and validate one case."""
    try:
        lint = helm_python.lint(chart, values, strict=True)
        rendered = helm_python.Chart.load(chart).render(values, name="openoutbox-relay", namespace="outbox")
    except helm_python.HelmError as error:
        return {"error": str(error)}
    files = {path.rpartition("/")[2]: text for path, text in rendered.items() if path.endswith(".yaml")}
    return {"lint": lint["messages"] + lint["errors"], "files": files, **validate(files, versions)}


def validate(files: dict[str, str], versions: list[str]) -> dict[str, list[str]]:
    """Hold every object of the files to the schemas of these versions, strictly: a misspelt field is an error."""
    invalid, unknown = [], set()
    for name, text in files.items():
        for document in filter(None, yaml.safe_load_all(text)):
            for version in versions:
                try:
                    kubernetes_validate.validate(document, version, strict=True)
                except kubernetes_validate.SchemaNotFoundError:
                    unknown.add(document["kind"])
                except kubernetes_validate.ValidationError as error:
                    invalid.append(f"{name}, Kubernetes {version}: {error}")
    return {"invalid": invalid, "unknown": sorted(unknown)}


if __name__ == "__main__":
    request = json.load(sys.stdin)
    kubernetes = request["kubernetes"]
    if "manifests" in request:
        json.dump([validate(request["manifests"], kubernetes)], sys.stdout)
    else:
        json.dump([answer(request["chart"], values, kubernetes) for values in request["cases"]], sys.stdout)
