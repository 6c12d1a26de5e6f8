"""docs/reference/http.md: its table of the admin API is what the routes say, and it names every path of the relay."""

from __future__ import annotations

import re
from typing import Any, cast

from relay.console.reference import renewed
from relay.server.routes import application
from tests.support.paths import ROOT

TEXT = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")


def test_the_table_of_the_admin_api_is_up_to_date() -> None:
    assert renewed(TEXT) == TEXT, "run: python -m relay.console.reference"


def test_the_relays_paths_are_those_that_it_serves() -> None:
    rows = TEXT.split("| path | answer |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    listed = {path for row in rows for path in re.findall(r"`(/\w*)`", row.split(" | ")[0])}
    routes = cast("Any", application(cast("Any", None))).routes
    assert listed == {route.path for route in routes if "/api/" not in route.path}
