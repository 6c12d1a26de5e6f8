"""docs/operate/monitoring.md names exactly the metrics that are served and the actions that are logged."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from relay.telemetry.__main__ import renewed
from relay.telemetry.prometheus import PrometheusTelemetry
from tests.support.paths import ROOT

TEXT = (ROOT / "docs/operate/monitoring.md").read_text(encoding="utf-8")


def table(title: str) -> list[list[str]]:
    """The rows of the table whose first column is headed ``title``."""
    rows = TEXT.split(f"| {title} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_the_table_of_metrics_is_up_to_date() -> None:
    assert renewed(TEXT) == TEXT, "run: python -m relay.telemetry"


def test_the_table_holds_what_is_served() -> None:
    telemetry = PrometheusTelemetry("relay-1")
    telemetry.away(["orders.created"])
    served = {
        (family.name, family.type, frozenset(label for one in family.samples for label in one.labels) - {"le"})
        for family in text_string_to_metric_families(telemetry.exposition()[0].decode())
        if not family.name.startswith("process_")
    }

    assert served == {
        (name.strip("`").removesuffix("_total"), kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, _ in table("metric")
    }


def test_the_table_of_actions_holds_what_is_logged() -> None:
    files = [path for path in (ROOT / "relay").rglob("*.py") if path.parent.name != "examples"]  # of requests
    sources = "".join(path.read_text(encoding="utf-8") for path in files)
    logged = set(re.findall(r'"action": "(\w+)"', sources))

    missing = logged - {row[0].strip("`") for row in table("action")}
    assert not missing, "docs/operate/monitoring.md lists every log action"
