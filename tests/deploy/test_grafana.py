"""The dashboards are those that are described, name metrics and documents that exist, and say what they show."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from deploy.grafana.__main__ import FOLDER, texts
from deploy.grafana.dashboards import DASHBOARDS
from tests.deploy.test_alerts import SERIES
from tests.docs.test_references import anchors
from tests.support.paths import ROOT

FILES = sorted(FOLDER.glob("*.json"))
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def dashboard(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return parsed


def queries(name: str) -> list[str]:
    return [target["expr"] for panel in dashboard(name)["panels"] for target in panel["targets"]]


def test_the_files_are_up_to_date() -> None:
    present = {path.name: path.read_text(encoding="utf-8") for path in FILES}
    assert present == texts(), "run: python -m deploy.grafana"


def test_every_dashboard_has_an_address_of_its_own() -> None:
    assert len({one.uid for one in DASHBOARDS.values()}) == len(DASHBOARDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_queries_use_metrics_that_are_served(name: str) -> None:
    variables = [
        variable["definition"] for variable in dashboard(name)["templating"]["list"] if "definition" in variable
    ]
    used = {
        series for expr in [*queries(name), *variables] for series in re.findall(r"(?:openoutbox|process)_\w+", expr)
    }
    assert used
    assert used <= SERIES | OF_THE_PROCESS


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_queries_use_variables_that_can_be_chosen(name: str) -> None:
    variables = {variable["name"] for variable in dashboard(name)["templating"]["list"]}
    text = json.dumps(dashboard(name))
    used = set(re.findall(r"\$\{?([a-z]\w*)", text)) - {"__rate_interval"}
    assert {"datasource", "docs"} < used
    assert used <= variables
    assert variables <= used


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_panel_has_a_unit_a_description_and_a_section_of_a_document(name: str) -> None:
    for panel in dashboard(name)["panels"]:
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert len(panel["description"]) > 10, panel["title"]
        [link] = panel["links"]
        document, _, anchor = link["url"].removeprefix("${docs}/").partition("#")
        assert (ROOT / "docs" / document).is_file(), link["url"]
        assert not anchor or anchor in anchors(f"docs/{document}"), link["url"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_two_panels_share_a_place(name: str) -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard(name)["panels"]]
    assert len(set(places)) == len(places)


def test_the_document_lists_every_dashboard() -> None:
    text = (ROOT / "docs/operate/monitoring.md").read_text(encoding="utf-8")
    assert re.findall(r"`([\w-]+)\.json`", text) == list(DASHBOARDS)
