"""A process that has Helm: reads one JSON request from standard input, writes one JSON answer. See ``helm.render``.

An answer has ``lint`` (its messages), ``files`` (rendered text by template), ``invalid`` (what a Kubernetes schema
refuses) and ``unknown`` (kinds without a schema), or ``error`` alone when the values are refused.
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
    return {"lint": lint["messages"] + lint["errors"], "files": files, "invalid": invalid, "unknown": sorted(unknown)}


if __name__ == "__main__":
    request = json.load(sys.stdin)
    json.dump([answer(request["chart"], values, request["kubernetes"]) for values in request["cases"]], sys.stdout)
