"""Routes that were written into a heartbeat send each event where the relay's do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.routing.reported import LONGEST, read_reported, routes_text
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from tests.routing.test_rules import event

_texts = st.sampled_from(["{type}", "shop.{type}", "{tenant}.x", "{header:region}", "plain"])
_templates = _texts.map(lambda text: read_template(text, "tenant_id"))
_targets = st.builds(Target, st.sampled_from(["", "main", "audit"]), _templates)
_rules = st.builds(
    lambda number, pattern, targets: (
        Rule(number, pattern, targets[0].to, targets[0].via, tuple(targets[1:]))
        if targets
        else Rule(number, pattern, None, "")
    ),
    st.integers(1, 9),
    st.sampled_from(["*", "order.*", "order.paid", "*.paid"]),
    st.lists(_targets, max_size=2),
)
_inner = st.builds(Routes, st.lists(_rules, max_size=3), st.just(""), st.sampled_from([None, "main/eu"]))
_routes = st.builds(
    Routes,
    st.lists(_rules, max_size=3),
    st.sampled_from(["", "prod."]),
    st.sampled_from([None, "", "main", "audit"]),
    st.dictionaries(st.just("audit"), _inner),
)


@given(
    _routes,
    st.sampled_from(["order.paid", "order.placed", "invoice.paid", ""]),
    st.dictionaries(st.sampled_from(["region", "tenant_id"]), st.sampled_from(["eu", ""])),
)
def test_they_are_the_same_routes(routes: Routes, event_type: str, headers: dict[str, str]) -> None:
    text = routes_text(routes)
    assert text is not None
    one = event(event_type, **headers)
    assert read_reported(text).places(one) == routes.places(one)


def test_very_many_routes_are_not_reported() -> None:
    rules = [Rule(number, f"type-{number}", None, "") for number in range(LONGEST // 10)]
    assert routes_text(Routes(rules)) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rules": 1}', '{"rules": [[1]], "prefix": ""}'])
def test_what_another_version_wrote_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - by any text
        read_reported(text)
