"""The rules name metrics that exist, and every alert is explained and tested both ways."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from relay.telemetry.catalogue import CATALOGUE, MetricType
from tests.docs.test_references import anchors
from tests.support.paths import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
FILES = ("recording.yaml", "alerts.yaml")
RULES = [
    rule
    for name in FILES
    for group in yaml.safe_load((PROMETHEUS / name).read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = [rule["alert"] for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
SERIES = {
    series
    for metric in CATALOGUE
    for series in (
        [f"{metric.name}{suffix}" for suffix in ("_bucket", "_sum", "_count")]
        if metric.type is MetricType.HISTOGRAM
        else [metric.name]
    )
}


def cases() -> list[dict[str, Any]]:
    """Every expectation about an alert in promtool's tests."""
    return [
        case
        for path in sorted((PROMETHEUS / "tests").glob("*.yaml"))
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
        for case in test["alert_rule_test"]
    ]


def test_the_rules_use_metrics_that_are_served() -> None:
    used = {name for rule in RULES for name in re.findall(r"(?<![:\w])openoutbox_\w+(?!:)", rule["expr"])}

    assert used
    assert used <= SERIES


def test_the_rules_use_what_is_recorded() -> None:
    used = {name for rule in RULES for name in re.findall(r"\w+:openoutbox_\w+:\w+", rule["expr"])}

    assert used
    assert used <= RECORDED


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_is_tested_to_fire_and_not_to_fire(alert: str) -> None:
    fires = {bool(case["exp_alerts"]) for case in cases() if case["alertname"] == alert}

    assert fires == {True, False}


def test_the_document_explains_every_alert_and_no_other() -> None:
    text = (ROOT / "docs/operate/alerts.md").read_text(encoding="utf-8")

    assert re.findall(r"^## (Outbox\w+)$", text, re.MULTILINE) == ALERTS


def test_every_alert_names_its_section_by_a_path_without_a_host() -> None:
    named = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in RULES if "alert" in rule}

    assert named == {alert: f"docs/operate/alerts.md#{alert.lower()}" for alert in ALERTS}
    assert {alert.lower() for alert in ALERTS} <= anchors("docs/operate/alerts.md")
