"""docs/operate/monitoring.md names exactly the actions that are logged."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

TEXT = (ROOT / "docs/operate/monitoring.md").read_text(encoding="utf-8")


def test_the_table_of_actions_holds_what_is_logged() -> None:
    rows = TEXT.split("| action |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    files = [path for path in (ROOT / "relay").rglob("*.py") if path.parent.name != "examples"]  # of requests
    sources = "".join(path.read_text(encoding="utf-8") for path in files)
    logged = set(re.findall(r'"action": "(\w+)"', sources))

    assert sorted(logged - listed) == [], "docs/operate/monitoring.md lists every log action"
