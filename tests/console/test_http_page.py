"""docs/reference/http.md is what routes and examples say; every path of the relay is named."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from deploy.reference.pages import PAGES, renewed
from relay.server.routes import application
from tests.support.paths import ROOT

TEXT = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_what_is_made_from_routes_and_examples_is_up_to_date(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert renewed(page, text) == text, "run: python -m deploy.reference"


def test_the_relays_paths_are_those_that_it_serves() -> None:
    rows = TEXT.split("| path | answer |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    listed = {path for row in rows for path in re.findall(r"`(/\w*)`", row.split(" | ")[0])}
    routes = cast("Any", application(cast("Any", None))).routes
    assert listed == {route.path for route in routes if "/api/" not in route.path}
